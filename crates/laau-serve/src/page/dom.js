// Elements. Text goes in as text: nothing here or elsewhere parses HTML.

/** An element with attributes and children; strings become text. */
export function element(tag, attributes = {}, ...children) {
  const svg = SVG.has(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) node.setAttribute(name, String(value));
  }
  node.append(...children.filter((child) => child !== undefined && child !== null));
  return node;
}

const SVG = new Set(["svg", "path", "line", "rect", "circle", "text", "g", "polyline", "title"]);

/**
 * Makes the children of a node equal to those given, and keeps every node that can stay: a button that is made anew
 * between press and release is never clicked. Children with a `data-key` are found by it, others by their place.
 */
export function patch(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.children) if (child.dataset.key !== undefined) keyed.set(child.dataset.key, child);
  let at = parent.firstChild;
  for (const node of wanted) {
    const key = node.dataset?.key;
    const old = key === undefined ? (at?.dataset?.key === undefined ? at : undefined) : keyed.get(key);
    if (old && old.nodeName === node.nodeName) {
      update(old, node);
      if (old === at) at = at.nextSibling;
      else parent.insertBefore(old, at);
    } else {
      parent.insertBefore(node, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function update(old, node) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!node.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of node.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  patch(old, [...node.childNodes]);
}
