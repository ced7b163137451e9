// Draws what is known, now and then.

import * as api from "./api.js";
import { Chart } from "./chart.js";
import { element, patch } from "./dom.js";
import { count, percent } from "./format.js";
import { PeriodLog } from "./log.js";
import { $, nothing, state } from "./state.js";
import * as view from "./view.js";

const DRAW_MS = 250;
const POINTS = 400;

const charts = {
  remaining: new Chart($("chart-remaining"), {
    label: "Remaining share of each budget over the steps of the period",
    height: 240,
    format: percent,
    tick: (value) => `${Math.round(100 * value)} %`,
    name: (k, all) => (all.length > 1 ? `budget ${k + 1}` : "remaining"),
    empty: "No figures of this period yet.",
  }),
  price: new Chart($("chart-price"), {
    label: "Price of a unit of each budget over the steps of the period",
    name: (k, all) => (all.length > 1 ? `of budget ${k + 1}` : "price"),
    empty: "No prices: nothing was decided yet, or the policy has none.",
  }),
  action: new Chart($("chart-action"), {
    label: "Actions over the steps of the period",
    name: (k, all) => (all.length > 1 ? `action ${k + 1}` : "action"),
    empty: "No actions yet.",
  }),
};

let timer;
let drawn = 0;
/** Whether the list of accounts has changed. */
let stale = true;

export function relist() {
  stale = true;
  soon();
}

/** Draws at most every DRAW_MS, and nothing that nobody sees. */
export function soon() {
  if (timer) return;
  const wait = Math.max(0, drawn + DRAW_MS - performance.now());
  timer = setTimeout(() => {
    timer = undefined;
    if (document.hidden) return;
    drawn = performance.now();
    draw();
  }, wait);
}

function draw() {
  drawAccounts();
  const account = state.accounts.get(state.chosen);
  if (!account) return;
  $("name").textContent = account.spec.name;
  $("settings").textContent = view.settings(account);
  if (!account.period && state.refused) {
    nothing("Not shown here", `${state.refused}.`);
    return;
  }
  if (!account.period && account.context === undefined) {
    nothing("Not loaded yet", "This node reads the account from its log when it is asked for it.");
    return;
  }
  if (!account.period) {
    nothing("No period has begun", "An admin begins one:", view.curl(api.path("accounts", account.spec.name, "periods"), { keyed: true }));
    return;
  }
  $("nothing").hidden = true;
  $("detail").hidden = false;
  drawPeriods(account);
  const number = state.period ?? account.period.number;
  const log = state.logs.get(number) ?? new PeriodLog(number);
  const period = number === account.period.number ? account.period : past(log, account);
  patch($("tiles"), view.tiles(account, period, log));
  patch($("budgets").tBodies[0], view.budgetRows(account, period));
  patch($("guard"), view.guard(account, period.certificate, log));
  drawCharts(period, log);
  drawHolds(account);
  drawDecisions(account, log);
}

/** A period that is over, as far as its log tells. */
function past(log, account) {
  const budgets = log.budgets ?? account.period.budgets;
  const held = budgets.map((_, i) => [...log.holds.values()].reduce((sum, hold) => sum + (hold.held?.[i] ?? 0), 0));
  const remaining = log.remaining.points.at(-1)?.last ?? budgets;
  const steps = log.steps ?? 0;
  return { number: log.number, began: log.began, until: log.began, budgets, remaining, held, holds: log.holds.size, step: log.passed, horizon: steps, granted: 0, multiplier: log.price.points.at(-1)?.last };
}

function drawPeriods(account) {
  const open = account.period.number;
  const numbers = [...state.logs.keys()].filter((number) => number <= open).sort((a, b) => b - a);
  if (!numbers.includes(open)) numbers.unshift(open);
  const select = $("period");
  const names = numbers.map((number) => (number === open ? `${number} (open)` : `${number} (over)`));
  if (names.join() !== [...select.options].map((item) => item.textContent).join()) {
    select.replaceChildren(...numbers.map((number, i) => element("option", { value: number }, names[i])));
  }
  if (state.period !== undefined && !numbers.includes(state.period)) state.period = undefined;
  select.value = state.period ?? open;
}

function drawCharts(period, log) {
  const budgets = log.budgets ?? period.budgets;
  const steps = log.steps ?? period.horizon;
  const share = (values) => values.map((value, i) => (budgets[i] > 0 ? value / budgets[i] : 0));
  const remaining = log.remaining.reduced(POINTS).map((point) => ({ ...point, last: share(point.last), low: share(point.low), high: share(point.high), sum: share(point.sum) }));
  const marks = log.guarded.reduced(150).map((point) => point.x);
  charts.remaining.draw(remaining, steps, { even: steps, top: 1, bottom: 0 });
  charts.price.draw(log.price.reduced(POINTS), steps, { bottom: 0 });
  charts.action.draw(log.action.reduced(POINTS), steps, { marks });
}

/** Logs that may have open holds in parts that were not read. */
export function unsearched(account) {
  const { number, holds } = account.period;
  return [...state.logs.values()].filter((log) => !log.knowsHolds && (log.number !== number || log.holds.size < holds));
}

function drawHolds(account) {
  const logs = [...state.logs.values()];
  const { rows, open, shown } = view.holdRows(logs);
  const current = state.logs.get(account.period.number);
  const missing = Math.max(0, account.period.holds - (current?.holds.size ?? 0));
  const notes = [];
  if (open === 0 && account.period.holds === 0) notes.push("No open holds: every decision was settled or released. A hold counts as spent until then; nothing expires.");
  if (shown < open) notes.push(`The oldest ${count(shown)} of ${count(open)}.`);
  if (logs.some((log) => log !== current && log.holds.size > 0)) notes.push("Those of the period before are among them.");
  const unread = unsearched(account);
  if (unread.includes(current)) notes.push(`${count(missing)} more are in a part of the log that was not read.`);
  if (unread.some((log) => log !== current)) notes.push("Those of the period before are known in part.");
  $("holds-note").textContent = notes.join(" ");
  $("search-holds").hidden = unread.length === 0;
  $("holds").parentElement.hidden = open === 0;
  patch($("holds").tBodies[0], rows);
}

function drawDecisions(account, log) {
  const rows = view.decisionRows(log);
  const table = $("decisions");
  table.parentElement.hidden = rows.length === 0;
  patch(table.tBodies[0], rows);
  const note = $("decisions-note");
  if (rows.length > 0) {
    note.textContent = !log.sampled ? `The last ${count(rows.length)} of ${count(log.decisions)}.` : `The last ${count(rows.length)}. The log is long: the charts show samples of it.`;
  } else if (state.loading) {
    note.textContent = "Reading the log …";
  } else {
    const address = api.path("accounts", account.spec.name, "decisions");
    patch(note, [document.createTextNode("No decisions in this period. A program asks for one like this:"), view.curl(address, { keyed: true, body: JSON.stringify({ context: Array(account.context ?? 1).fill(0.5) }) })]);
  }
}

/** The whole list now and then, else the account that is shown: there may be thousands. */
function drawAccounts() {
  const shown = document.getElementById(`account-${state.chosen}`);
  if (!stale && shown && state.accounts.has(state.chosen)) {
    patch(shown, [...view.option(state.accounts.get(state.chosen), true).childNodes]);
    return;
  }
  stale = false;
  const list = $("accounts");
  const names = visible();
  list.parentElement.hidden = state.accounts.size === 0;
  patch(list, names.map((name) => view.option(state.accounts.get(name), name === state.selected)));
  if (!names.includes(state.selected)) list.firstElementChild?.setAttribute("tabindex", "0");
  const total = state.accounts.size;
  $("count").textContent = total === 0 ? "" : names.length === total ? `(${count(total)})` : `(${count(names.length)} of ${count(total)})`;
}

/** The names in the list, filtered and in order. */
export function visible() {
  const part = $("filter").value.trim().toLowerCase();
  const all = [...state.accounts.values()].filter((account) => account.spec.name.toLowerCase().includes(part));
  const lag = (account) => (view.left(account) ?? 2) - (view.pace(account) ?? 0);
  const orders = {
    pace: (a, b) => lag(a) - lag(b),
    holds: (a, b) => (b.period?.holds ?? 0) - (a.period?.holds ?? 0),
    name: () => 0,
  };
  const order = orders[$("order").value];
  all.sort((a, b) => order(a, b) || (a.spec.name < b.spec.name ? -1 : 1));
  return all.map((account) => account.spec.name);
}
