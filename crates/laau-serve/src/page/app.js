// The page: which account is shown, what is known of it, and when it is drawn.

import * as api from "./api.js";
import { Chart } from "./chart.js";
import { element, patch } from "./dom.js";
import { count, percent, vector } from "./format.js";
import { findHolds, read } from "./history.js";
import { PeriodLog } from "./log.js";
import * as view from "./view.js";

const $ = (id) => document.getElementById(id);
const POLL_MS = 5000;
const RETRY_MS = 3000;
const DRAW_MS = 250;
const POINTS = 400;

const state = {
  accounts: new Map(),
  /** The account that is shown, and the one the list points at: the second runs ahead for a moment. */
  chosen: undefined,
  selected: undefined,
  /** Logs of the open period and the one before, by number. */
  logs: new Map(),
  /** The period that is looked at; the open one if undefined. */
  period: undefined,
  loading: false,
  stop: new AbortController(),
  link: "connecting",
};

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

// ---- what the page says

const WORDS = { connecting: "connecting", live: "live", reconnecting: "reconnecting", unauthorised: "not authorised", refused: "not available" };

function link(next, detail = "") {
  const text = detail ? `${WORDS[next]} – ${detail}` : WORDS[next];
  const status = $("status");
  if (status.dataset.state === next && status.lastElementChild.textContent === text) return;
  state.link = next;
  status.dataset.state = next;
  status.lastElementChild.textContent = text;
}

function say(text, kind = "error") {
  const message = $("message");
  message.hidden = !text;
  message.dataset.kind = kind;
  message.setAttribute("role", kind === "error" ? "alert" : "status");
  message.textContent = text;
}

function failed(error) {
  if (error?.name === "AbortError") return;
  if (error instanceof api.Problem && error.unauthorised) {
    link("unauthorised");
    const enter = element("button", { type: "button", class: "strong", "data-enter-key": "" }, "Enter a key");
    const words = api.key.get() ? "The server does not know this key, or it was revoked." : "This server asks for one.";
    nothing("An API key is needed", `${words} Where the server runs, this prints a new one:`, element("pre", { tabindex: "0" }, "laau serve key --store FILE --scope read"), enter);
  } else if (error instanceof api.Problem) {
    say(error.message);
  } else if (!state.chosen) {
    // The stream of an account tells for itself.
    link("reconnecting", "the server does not answer");
  }
}

function nothing(title, words, ...more) {
  $("detail").hidden = true;
  $("nothing").hidden = false;
  patch($("nothing"), [element("h2", {}, title), element("p", {}, words), ...more]);
}

// ---- accounts

async function poll() {
  if (!document.hidden || state.accounts.size === 0) {
    try {
      const answer = await api.get(api.path("accounts"));
      state.accounts = new Map(answer.accounts.map((account) => [account.spec.name, account]));
      if (!state.chosen && (state.link === "reconnecting" || state.link === "unauthorised")) link("connecting");
      if (state.link === "connecting" && state.accounts.size === 0) link("live");
      pick();
      relist();
    } catch (error) {
      failed(error);
    }
  }
  clearTimeout(poll.timer);
  poll.timer = setTimeout(poll, POLL_MS);
}

function pick() {
  if (state.accounts.size === 0) {
    choose(undefined);
    const body = `{"name":"first","problem":{"name":"weighted-fairness"},"policy":{"name":"equal"},"budgets":[100],"horizon":20}`;
    nothing("No accounts yet", "An account is a budget with a policy. This makes one; it needs an admin key:", view.curl("/v1/accounts", { body }));
    return;
  }
  const wanted = decodeURIComponent(location.hash.slice(1));
  if (!state.accounts.has(state.chosen)) choose(state.accounts.has(wanted) ? wanted : visible()[0] ?? state.accounts.keys().next().value);
}

function visible() {
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

function choose(name) {
  if (name === state.chosen) return;
  state.stop.abort();
  state.stop = new AbortController();
  state.chosen = state.selected = name;
  state.logs = new Map();
  state.period = undefined;
  $("search-holds").disabled = false;
  if (name === undefined) return;
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  const { signal } = state.stop;
  link("connecting");
  const on = {
    state: link,
    event: (kind, data) => kind === "entry" && !signal.aborted && heard(JSON.parse(data)),
    open: () => {
      link("live");
      refresh(name, signal);
    },
  };
  api.follow(api.path("accounts", name, "events"), on, signal);
  relist();
}

/** Reads what is not known yet; what the stream brings meanwhile is taken in afterwards. */
async function refresh(name, signal) {
  if (state.loading === signal) return;
  state.loading = signal;
  waiting = [];
  try {
    const account = await api.get(api.path("accounts", name), signal);
    state.accounts.set(name, account);
    soon();
    const open = account.period?.number;
    for (const number of open === undefined ? [] : open > 0 ? [open - 1, open] : [open]) {
      if (!state.logs.has(number)) state.logs.set(number, new PeriodLog(number));
      await read(name, state.logs.get(number), signal, soon);
    }
  } catch (error) {
    failed(error);
    if (!signal.aborted && !(error instanceof api.Problem && error.unauthorised)) setTimeout(() => signal.aborted || refresh(name, signal), RETRY_MS);
  } finally {
    if (state.loading === signal) {
      state.loading = false;
      const late = waiting;
      waiting = [];
      late.forEach(heard);
    }
  }
}

let waiting = [];

function heard(notice) {
  if (notice.account !== state.chosen) return;
  if (state.loading) {
    // Bounded: what does not fit is read from the log, by the gap it leaves.
    if (waiting.length < 5000) waiting.push(notice);
    return;
  }
  const { entry, period } = notice;
  const account = state.accounts.get(notice.account);
  let log = state.logs.get(entry.period);
  if (!log && entry.number === 0) {
    log = new PeriodLog(entry.period);
    state.logs.set(entry.period, log);
    for (const number of state.logs.keys()) if (number < entry.period - 1) state.logs.delete(number);
  }
  if (account && period && (account.period?.number ?? -1) <= period.number) account.period = period;
  if (!log) return;
  if (entry.number > log.next) {
    // The stream leaves entries out for a reader that is too slow.
    refresh(notice.account, state.stop.signal);
    return;
  }
  log.take(entry);
  soon();
}

// ---- drawing

let timer;
let drawn = 0;
/** Whether the list of accounts has changed. */
let stale = true;

function relist() {
  stale = true;
  soon();
}

/** Draws at most every DRAW_MS, and nothing that nobody sees. */
function soon() {
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
function unsearched(account) {
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
    patch(note, [document.createTextNode("No decisions in this period. A program asks for one like this:"), view.curl(address, { keyed: true, body: `{"context":[0.5]}` })]);
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

// ---- what people do

$("accounts").addEventListener("click", (event) => {
  const item = event.target.closest("li");
  if (item) move(item);
});
$("accounts").addEventListener("keydown", (event) => {
  const items = [...$("accounts").children];
  const at = items.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1, PageDown: at + 8, PageUp: at - 8, Enter: at, " ": at }[event.key];
  if (to === undefined || at < 0) return;
  event.preventDefault();
  move(items[Math.max(0, Math.min(items.length - 1, to))]);
});

function move(item) {
  state.selected = item.dataset.name;
  for (const other of $("accounts").children) {
    other.setAttribute("aria-selected", String(other === item));
    other.tabIndex = other === item ? 0 : -1;
  }
  item.focus();
  // Whoever runs down the list does not ask for every account on the way.
  clearTimeout(move.timer);
  const name = item.dataset.name;
  say("");
  move.timer = setTimeout(() => choose(name), 120);
}

$("filter").addEventListener("input", relist);
$("order").addEventListener("change", relist);
$("period").addEventListener("change", (event) => {
  const open = state.accounts.get(state.chosen)?.period?.number;
  const number = Number(event.target.value);
  state.period = number === open ? undefined : number;
  soon();
});

$("search-holds").addEventListener("click", async (event) => {
  const button = event.currentTarget;
  const account = state.accounts.get(state.chosen);
  const { signal } = state.stop;
  button.disabled = true;
  try {
    for (const log of unsearched(account)) {
      await findHolds(account.spec.name, log, signal, (many) => (button.textContent = `${count(many)} entries read …`));
    }
  } catch (error) {
    failed(error);
  }
  button.disabled = false;
  button.textContent = "Look through the whole log";
  soon();
});

let releasing;

function askRelease(hold) {
  releasing = { hold, account: state.chosen };
  $("release-text").textContent = `Decision ${hold.id} of ${state.chosen} holds ${vector(hold.held)}. All of it comes back to the budget.`;
  $("release-dialog").showModal();
}
$("holds").addEventListener("click", (event) => {
  const id = event.target.closest("button")?.dataset.decision;
  const hold = [...state.logs.values()].map((log) => log.holds.get(id)).find(Boolean);
  if (hold) askRelease(hold);
});
$("release-cancel").addEventListener("click", () => $("release-dialog").close());
$("release-confirm").addEventListener("click", async () => {
  const { hold, account } = releasing;
  $("release-dialog").close();
  try {
    // The key is the decision's name: to ask twice releases once.
    await api.post(api.path("accounts", account, "decisions", hold.id, "release"), `release-${hold.id}`);
    say(`Released ${hold.id}: ${vector(hold.held)} came back.`, "done");
  } catch (error) {
    if (error instanceof api.Problem && (error.status === 403 || error.status === 401)) say(`Not released: ${error.message}. Releasing needs an admin key.`);
    else say(`Not released: ${error.message}`);
  }
});

function askKey() {
  $("key").value = api.key.get();
  $("key-dialog").showModal();
  $("key").focus();
}
$("key-button").addEventListener("click", askKey);
$("nothing").addEventListener("click", (event) => event.target.closest("[data-enter-key]") && askKey());
$("key-cancel").addEventListener("click", () => $("key-dialog").close());
$("key-forget").addEventListener("click", () => useKey(""));
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey($("key").value.trim());
});

function useKey(secret) {
  $("key-dialog").close();
  $("key").value = "";
  api.key.set(secret);
  say("");
  choose(undefined);
  state.accounts = new Map();
  stale = true;
  drawAccounts();
  link("connecting");
  poll();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
const showTheme = () => $("theme").setAttribute("aria-pressed", String(isDark()));
$("theme").addEventListener("click", () => {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("laau-theme", next);
  } catch {
    // It holds until the page is closed.
  }
  showTheme();
});
dark.addEventListener("change", showTheme);
showTheme();

addEventListener("resize", soon);
addEventListener("hashchange", () => {
  const name = decodeURIComponent(location.hash.slice(1));
  if (state.accounts.has(name)) choose(name);
});
document.addEventListener("visibilitychange", () => !document.hidden && (poll(), soon()));
// Ages and what is left of a period by the clock go on without events.
setInterval(() => state.chosen && soon(), 1000);
poll();
