// Keeps what is known up to date: the list of accounts by asking, the chosen account by its stream of events.

import * as api from "./api.js";
import { relist, soon, visible } from "./draw.js";
import { read } from "./history.js";
import { PeriodLog } from "./log.js";
import { $, failed, link, nothing, state } from "./state.js";
import * as view from "./view.js";

const POLL_MS = 5000;
const RETRY_MS = 3000;

export async function poll() {
  const since = performance.now();
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
  if (state.suspended) return;
  // A list of many accounts is work for the service: it does little else but what it is asked.
  poll.timer = setTimeout(poll, Math.min(60_000, Math.max(POLL_MS, 20 * (performance.now() - since))));
}

function pick() {
  if (state.accounts.size === 0) {
    choose(undefined);
    const body = `{"name":"first","problem":{"name":"weighted-fairness"},"policy":{"name":"equal"},"budgets":[100],"horizon":20}`;
    nothing("No accounts yet", `An account is a budget with a policy. This makes one${api.key.get() ? ", with an admin key" : ""}:`, view.curl("/v1/accounts", { body }));
    return;
  }
  const wanted = decodeURIComponent(location.hash.slice(1));
  if (!state.accounts.has(state.chosen)) choose(state.accounts.has(wanted) ? wanted : visible()[0] ?? state.accounts.keys().next().value);
}

export function choose(name) {
  if (name === state.chosen) return;
  state.stop.abort();
  state.stop = new AbortController();
  state.chosen = state.selected = name;
  state.logs = new Map();
  state.period = undefined;
  $("search-holds").disabled = false;
  if (name === undefined) return;
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  listen();
  relist();
}

/** Follows the chosen account; what was missed meanwhile is read when the stream is open. */
function listen() {
  const name = state.chosen;
  state.stop = new AbortController();
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
}

/**
 * Ends the stream of a page that nobody sees. A browser keeps pages that were left, and gives all of a service's pages
 * together six connections: streams of pages in the dark would leave none for the one that is looked at.
 */
export function suspend() {
  clearTimeout(poll.timer);
  state.stop.abort();
  state.suspended = true;
}

export function resume() {
  if (state.suspended) {
    state.suspended = false;
    if (state.chosen !== undefined) listen();
  }
  poll();
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
