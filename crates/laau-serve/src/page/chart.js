// Line charts in SVG: a line for each value, the range of what was merged behind it, a cursor for mouse and keyboard.

import { element } from "./dom.js";
import { number } from "./format.js";

const LEFT = 52;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 26;
const MOST_LINES = 6;
/** A second mark beside colour: every line has its own dashes. */
const DASHES = ["", "7 4", "2 3", "10 4 2 4", "4 2", "12 5"];

export class Chart {
  #figure;
  #plot;
  #legend;
  #readout;
  #drawn;
  #cursor;

  /** `options`: label, height, format(value), tick(value), name(k, values), empty (text). */
  constructor(figure, options) {
    this.options = { format: number, tick: options.format ?? number, name: (k) => `${k + 1}`, height: 200, ...options };
    this.#figure = figure;
    this.#plot = element("div", { class: "plot", tabindex: "0", role: "img" });
    this.#legend = element("ul", { class: "legend" });
    this.#readout = element("p", { class: "readout" });
    figure.append(this.#plot, this.#readout, this.#legend);
    this.#plot.addEventListener("pointermove", (event) => this.#point(event));
    this.#plot.addEventListener("pointerleave", () => this.#show(undefined));
    this.#plot.addEventListener("blur", () => this.#show(undefined));
    this.#plot.addEventListener("keydown", (event) => this.#key(event));
  }

  /**
   * Draws points ({x, last, low, high, sum, count}) over x from 0 to `end`. `extra`: even (the last step of the even pace),
   * top and bottom of the axis, marks (positions of ticks under the axis).
   */
  draw(points, end, extra = {}) {
    const width = Math.max(260, Math.round(this.#figure.clientWidth) || 600);
    const height = this.options.height;
    this.#figure.querySelector(".empty")?.remove();
    if (points.length === 0) {
      this.#plot.hidden = true;
      this.#legend.replaceChildren();
      this.#readout.hidden = true;
      this.#figure.append(element("p", { class: "quiet empty" }, this.options.empty));
      return;
    }
    this.#plot.hidden = this.#readout.hidden = false;
    const lines = Math.min(MOST_LINES, points.at(-1).last.length);
    const [low, high] = range(points, lines, extra);
    const right = Math.max(end || 0, points.at(-1).x, 1);
    const x = (value) => LEFT + ((width - LEFT - RIGHT) * value) / right;
    const y = (value) => TOP + ((height - TOP - BOTTOM) * (high - value)) / (high - low);
    const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    for (const value of ticks(low, high, 4)) {
      svg.append(
        element("line", { class: value === 0 ? "grid zero" : "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
        element("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, this.options.tick(value)),
      );
    }
    for (const value of ticks(0, right, width < 420 ? 3 : 6).filter(Number.isInteger)) {
      svg.append(element("text", { x: x(value), y: height - 8, "text-anchor": x(value) > width - 40 ? "end" : "middle" }, number(value)));
    }
    if (end && end < right) svg.append(element("line", { class: "end", x1: x(end), x2: x(end), y1: TOP, y2: height - BOTTOM }));
    if (extra.even) svg.append(element("line", { class: "even", x1: x(0), y1: y(1), x2: x(extra.even), y2: y(0) }));
    for (const mark of extra.marks ?? []) {
      svg.append(element("line", { class: "acted", x1: x(mark), x2: x(mark), y1: height - BOTTOM, y2: height - BOTTOM + 6 }));
    }
    for (let k = 0; k < lines; k += 1) svg.append(...this.#line(points, k, x, y));
    this.#cursor = element("g");
    svg.append(this.#cursor);
    this.#plot.replaceChildren(svg);
    this.#drawn = { points, lines, x, y, width, height, right };
    this.#plot.setAttribute("aria-label", `${this.options.label}. ${this.#words(points.at(-1))} Arrow keys read earlier steps.`);
    this.#describe(points, lines, extra);
    this.#show(this.at);
  }

  #line(points, k, x, y) {
    const own = points.filter((point) => point.last.length > k);
    const mean = own.map((point, i) => {
      // The newest value is shown as it is.
      const value = i === own.length - 1 ? point.last[k] : point.sum[k] / point.count;
      return `${x(point.x).toFixed(1)},${y(value).toFixed(1)}`;
    });
    const parts = [];
    if (own.some((point) => point.high[k] > point.low[k])) {
      const up = own.map((point) => `${x(point.x).toFixed(1)},${y(point.high[k]).toFixed(1)}`);
      const down = own.map((point) => `${x(point.x).toFixed(1)},${y(point.low[k]).toFixed(1)}`).reverse();
      parts.push(element("path", { class: `band s${k}`, d: `M${up.join("L")}L${down.join("L")}Z` }));
    }
    parts.push(element("polyline", { class: `line s${k}`, points: mean.join(" "), "stroke-dasharray": DASHES[k] || undefined }));
    if (own.length === 1) parts.push(element("circle", { class: `dot s${k}`, cx: x(own[0].x), cy: y(own[0].last[k]), r: 3 }));
    return parts;
  }

  #describe(points, lines, extra) {
    const all = points.at(-1).last;
    const items = [];
    for (let k = 0; k < lines; k += 1) {
      items.push(
        element("li", {}, swatch(`line s${k}`, DASHES[k]), `${this.options.name(k, all)} `, element("b", {}, this.options.format(all[k]))),
      );
    }
    if (all.length > lines) items.push(element("li", {}, `and ${all.length - lines} more, not drawn`));
    if (extra.even) items.push(element("li", {}, swatch("even"), "even pace"));
    if (extra.marks?.length) items.push(element("li", {}, swatch("acted"), "the guard acted"));
    this.#legend.replaceChildren(...items);
  }

  #words(point) {
    const { format, name } = this.options;
    const values = point.last.slice(0, MOST_LINES).map((value, k) => `${name(k, point.last)} ${format(value)}`);
    return `Step ${number(point.x)}: ${values.join(", ")}.`;
  }

  #point(event) {
    if (!this.#drawn) return;
    const box = this.#plot.getBoundingClientRect();
    const { right, width, points } = this.#drawn;
    const at = (((event.clientX - box.left) / box.width) * width - LEFT) / (width - LEFT - RIGHT);
    this.#show(nearest(points, at * right));
  }

  #key(event) {
    if (!this.#drawn) return;
    const last = this.#drawn.points.length - 1;
    const page = Math.max(1, Math.round(last / 10));
    const from = this.at ?? last + 1;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, PageDown: from - page, PageUp: from + page, Home: 0, End: last }[event.key];
    if (event.key === "Escape") this.#show(undefined);
    if (to === undefined) return;
    event.preventDefault();
    // Only what was asked for by key is read aloud: a mouse would talk without end.
    this.#readout.setAttribute("aria-live", "polite");
    this.#show(Math.max(0, Math.min(last, to)));
  }

  #show(at) {
    this.at = at;
    this.#cursor?.replaceChildren();
    if (at === undefined || !this.#drawn?.points[at]) {
      this.at = undefined;
      this.#readout.removeAttribute("aria-live");
      this.#readout.textContent = "";
      return;
    }
    const { points, x, y, height, lines } = this.#drawn;
    const point = points[at];
    this.#cursor.append(element("line", { class: "cursor", x1: x(point.x), x2: x(point.x), y1: TOP, y2: height - BOTTOM }));
    for (let k = 0; k < Math.min(lines, point.last.length); k += 1) {
      this.#cursor.append(element("circle", { class: `dot s${k}`, cx: x(point.x), cy: y(point.last[k]), r: 3.5 }));
    }
    this.#readout.textContent = this.#words(point);
  }
}

function swatch(kind, dash) {
  const line = element("line", { class: kind, x1: 0, x2: 26, y1: 5, y2: 5, "stroke-dasharray": dash || undefined });
  if (kind === "acted") {
    for (const [name, value] of Object.entries({ x1: 13, x2: 13, y1: 1, y2: 9 })) line.setAttribute(name, value);
  }
  return element("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, line);
}

function range(points, lines, extra) {
  let low = extra.bottom ?? Infinity;
  let high = extra.top ?? -Infinity;
  for (const point of points) {
    for (let k = 0; k < Math.min(lines, point.low.length); k += 1) {
      low = Math.min(low, point.low[k]);
      high = Math.max(high, point.high[k]);
    }
  }
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
  if (high - low < 1e-12 * Math.max(1, Math.abs(high))) high = low + (Math.abs(low) || 1);
  return [low, extra.top === high ? high : high + 0.05 * (high - low)];
}

function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const out = [];
  for (let i = Math.ceil(low / step); i * step <= high + 1e-9 * step; i += 1) out.push(Number((i * step).toPrecision(12)));
  return out;
}

function nearest(points, x) {
  let low = 0;
  let high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle].x < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - points[low - 1].x < points[low].x - x ? low - 1 : low;
}
