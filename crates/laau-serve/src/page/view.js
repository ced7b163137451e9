// What is shown of an account: figures, tables, and what to do where there is nothing to show.

import * as api from "./api.js";
import { element } from "./dom.js";
import { count, duration, number, percent, policy, time, vector } from "./format.js";

const SHOWN_HOLDS = 100;
const SHOWN_DECISIONS = 50;

/** The share of a period that is left to spend evenly: by the clock, or by steps. */
export function pace(account, now = Date.now()) {
  const period = account.period;
  if (!period) return undefined;
  if (period.until) return clamp((period.until - now) / (period.until - period.began));
  const steps = Math.max(account.spec.horizon ?? period.horizon, period.horizon);
  return steps > 0 ? clamp((period.horizon - period.step) / steps) : 0;
}

const clamp = (value) => Math.min(1, Math.max(0, value));

/** The share that is left of the scarcest budget. */
export function left(account) {
  const period = account.period;
  if (!period) return undefined;
  const shares = period.budgets.map((budget, i) => (budget > 0 ? period.remaining[i] / budget : 1));
  return Math.min(...shares);
}

/** A line for the shell; with a key only if this page needs one: a service without keys takes none. */
export function curl(address, { body, keyed = false } = {}) {
  const lines = [`curl -X POST ${location.origin}${address}`];
  if (api.key.get()) lines.push(`-H "Authorization: Bearer $LAAU_KEY"`);
  if (keyed) lines.push(`-H "Idempotency-Key: my-request-1"`);
  if (body) lines.push("-H 'Content-Type: application/json'", `-d '${body}'`);
  return element("pre", { tabindex: "0" }, lines.join(" \\\n  "));
}

/** One line of the list of accounts. */
export function option(account, chosen) {
  const { spec, period } = account;
  const share = left(account);
  const even = pace(account);
  const behind = share !== undefined && even !== undefined && share < even - 0.005;
  const figure = share === undefined ? "no period" : percent(share);
  const node = element("li", { role: "option", id: `account-${spec.name}`, "aria-selected": chosen, tabindex: chosen ? "0" : "-1" });
  node.dataset.key = node.dataset.name = spec.name;
  node.append(
    element("div", { class: "row" }, element("strong", {}, spec.name), element("span", {}, figure)),
    meter(share, even, behind),
    element(
      "div",
      { class: "row" },
      element("span", {}, policy(spec.policy)),
      element("span", { class: behind ? "behind" : undefined }, account.closed ? "closed" : ahead(share, even)),
    ),
    element(
      "div",
      { class: "row" },
      element("span", {}, period ? `period ${period.number}, ${holds(period.holds)}` : "not begun"),
      element("span", {}, spec.guard ? `guard ${percent(spec.guard.level)}` : "no guard"),
    ),
  );
  return node;
}

const holds = (many) => (many === 1 ? "1 hold" : `${count(many)} holds`);

export function ahead(share, even) {
  if (share === undefined || even === undefined) return "";
  const points = 100 * (share - even);
  if (Math.abs(points) < 0.5) return "on the even pace";
  return points > 0 ? `${points.toFixed(1)} points ahead` : `${(-points).toFixed(1)} points behind`;
}

function meter(share, even, behind) {
  const svg = element("svg", { class: "meter", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(element("rect", { class: "track", x: 0, y: 3, width: 100, height: 6, rx: 1 }));
  if (share !== undefined) svg.append(element("rect", { class: `fill ${behind ? "behind" : ""}`, x: 0, y: 3, width: 100 * clamp(share), height: 6, rx: 1 }));
  if (even !== undefined) svg.append(element("rect", { class: "pace", x: Math.min(99.2, 100 * even), y: 0, width: 0.8, height: 12 }));
  return svg;
}

/** The settings in one line. */
export function settings(account) {
  const { spec } = account;
  const parts = [`policy ${policy(spec.policy)}`];
  if (spec.problem) parts.push(`problem ${spec.problem.name ?? spec.problem.kind ?? JSON.stringify(spec.problem)}`);
  parts.push(spec.guard ? `guard at ${percent(spec.guard.level)} of ${policy(spec.guard.policy)}` : "no guard");
  parts.push(spec.period ? `a period every ${duration(1000 * spec.period.seconds)}` : "periods on request");
  if (spec.rollover) parts.push("what is left rolls over");
  if (account.closed) parts.push("closed");
  return parts.join(" · ");
}

export function tiles(account, period, log) {
  const share = left({ ...account, period });
  const even = pace({ ...account, period });
  const all = [[period.budgets.length > 1 ? "Scarcest budget" : "Budget left", percent(share), ahead(share, even), share < even - 0.005 ? "behind" : "ahead"]];
  all.push(["Step", `${count(period.step)} of ${count(period.horizon)}`, period.granted ? `${count(period.granted)} past the horizon` : ends(period)]);
  all.push(["Open holds", count(period.holds), period.holds ? `${vector(period.held, 2)} held` : "nothing is held"]);
  const price = period.multiplier;
  all.push(["Price of a unit", price ? number(price[0]) : "–", price?.length > 1 ? `of budget 1; then ${vector(price.slice(1), 2)}` : price ? "at the last decision" : "this policy gives none"]);
  if (account.spec.guard) all.push(["Guard acted", count(period.certificate?.acted ?? log.acted), `promises ${percent(account.spec.guard.level)}`]);
  return all.map(([term, value, note, kind]) =>
    element("div", {}, element("dt", {}, term), element("dd", {}, value, element("small", { class: kind }, note || "\u00a0"))),
  );
}

function ends(period) {
  if (!period.until) return `since ${time(period.began)}`;
  const leftover = period.until - Date.now();
  return leftover > 0 ? `ends in ${duration(leftover)}` : "ends with the next decision";
}

export function budgetRows(account, period) {
  const even = pace({ ...account, period });
  return period.budgets.map((budget, i) => {
    const share = budget > 0 ? period.remaining[i] / budget : undefined;
    return row([`${i + 1}`, number(period.remaining[i]), number(budget), percent(share), percent(even), number(period.held[i])]);
  });
}

export function guard(account, certificate, log) {
  const { spec } = account;
  if (!spec.guard) {
    return [element("p", { class: "quiet" }, "No guard. With one, an account gains at least a share of what its incumbent would have gained, whatever the policy does: "),
      element("pre", { tabindex: "0" }, `"guard": {"policy": {"name": "equal"}, "level": 0.95}`)];
  }
  if (!certificate) return [element("p", { class: "quiet" }, `Promises ${percent(spec.guard.level)} of what ${policy(spec.guard.policy)} gains. It speaks after the first decision.`)];
  const kept = certificate.incumbent_gain > 0 ? certificate.gain / certificate.incumbent_gain : undefined;
  const holding = certificate.margin >= -certificate.allowance;
  const steps = Math.max(log.decisions, 1);
  const facts = [
    ["Promised", `${percent(certificate.level)} of ${policy(spec.guard.policy)}`],
    ["Kept so far", kept === undefined ? "nothing to compare yet" : percent(kept)],
    ["Least margin", holding ? number(certificate.margin) : `${number(certificate.margin)}, below the promise`, holding ? undefined : "bad"],
    ["Acted", !log.sampled ? `${count(certificate.acted)} of ${count(log.decisions)} (${percent(certificate.acted / steps)})` : `${count(certificate.acted)} times`],
    ["Policy failed", `${count(certificate.advice_failures)} times`],
    ["Incumbent failed", `${count(certificate.incumbent_failures)} times`],
  ];
  return [element("dl", { class: "guard" }, ...facts.map(([term, value, kind]) => element("div", {}, element("dt", {}, term), element("dd", { class: kind }, value))))];
}

/** Rows of the open holds of some logs, the oldest first. */
export function holdRows(logs) {
  const open = logs.flatMap((log) => [...log.holds.values()]).sort((a, b) => a.at - b.at);
  const rows = open.slice(0, SHOWN_HOLDS).map((hold) => {
    const button = element("button", { type: "button", "aria-label": `Release ${hold.id}` }, "Release");
    button.dataset.decision = hold.id;
    const node = row([hold.id, duration(Date.now() - hold.at), vector(hold.held), hold.key ?? "–", button], hold.key && { 3: hold.key });
    node.dataset.key = hold.id;
    return node;
  });
  return { rows, open: open.length, shown: rows.length };
}

export function decisionRows(log) {
  const newest = log.latest.slice(-SHOWN_DECISIONS).reverse();
  return newest.map((decision) => {
    const used = log.used.get(decision.id);
    const notes = [];
    if (decision.guarded) notes.push(element("span", { class: "tag" }, "guarded"));
    if (decision.beyond) notes.push(element("span", { class: "tag behind" }, "past the horizon"));
    if (decision.fallback) notes.push(element("span", { class: "tag bad" }, `fallback: ${text(decision.fallback)}`));
    if (decision.warning) notes.push(element("span", { class: "behind" }, text(decision.warning)));
    const cells = [decision.id, time(decision.at), vector(decision.context, 2), vector(decision.action, 3), vector(decision.price, 3), vector(decision.held, 3)];
    cells.push(used === undefined ? "open" : typeof used === "string" ? used : vector(used, 3));
    const node = row(cells);
    node.append(element("td", {}, ...notes));
    node.dataset.key = decision.id;
    return node;
  });
}

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function row(cells, titles) {
  return element(
    "tr",
    {},
    ...cells.map((cell, i) => element(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : undefined, title: titles?.[i] }, cell)),
  );
}
