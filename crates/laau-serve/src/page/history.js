// Reads the log of a period: all of it while it is short, else samples of it and its end.

import { get, path } from "./api.js";

const PAGE = 1000;
/** Logs up to this many entries are read as a whole. */
const WHOLE = 20_000;
const SAMPLES = 120;
const SAMPLE = 20;
const TAIL = 3000;

const entries = async (account, period, from, most, signal) => {
  const answer = await get(`${path("accounts", account, "periods", period, "entries")}?from=${from}&most=${most}`, signal);
  return Array.isArray(answer) ? answer : answer.entries;
};

/** Brings a log up to date. `progress()` is called whenever there is something new to draw. */
export async function read(account, log, signal, progress) {
  const first = await entries(account, log.number, log.next, PAGE, signal);
  take(log, first, progress);
  if (first.length < PAGE) return;
  const end = await length(account, log.number, log.next, signal);
  if (end - log.next > WHOLE) {
    const tail = end - TAIL;
    const stride = (tail - log.next) / SAMPLES;
    const starts = Array.from({ length: SAMPLES }, (_, i) => Math.floor(log.next + i * stride));
    for (let i = 0; i < starts.length; i += 6) {
      const parts = await Promise.all(
        starts.slice(i, i + 6).map((from) => entries(account, log.number, from, SAMPLE, signal)),
      );
      for (const part of parts) take(log, part, progress);
    }
    await rest(account, log, tail, signal, progress);
  } else {
    await rest(account, log, log.next, signal, progress);
  }
}

async function rest(account, log, from, signal, progress) {
  for (;;) {
    const part = await entries(account, log.number, from, PAGE, signal);
    take(log, part, progress);
    if (part.length < PAGE) return;
    from += part.length;
  }
}

function take(log, part, progress) {
  for (const entry of part) log.take(entry);
  progress();
}

/** The number of entries, given that there are at least `known`. */
async function length(account, period, known, signal) {
  const has = async (number) => (await entries(account, period, number, 1, signal)).length > 0;
  let low = known - 1;
  let high = 2 * known;
  while (await has(high)) [low, high] = [high, 2 * high];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (await has(middle)) low = middle;
    else high = middle;
  }
  return high;
}

/** Finds every open hold of a period, by reading the whole log once without keeping it. */
export async function findHolds(account, log, signal, progress) {
  const scan = new log.constructor(log.number);
  do {
    const part = await entries(account, log.number, scan.next, PAGE, signal);
    for (const entry of part) {
      scan.take(entry);
      if (entry.number >= log.next) log.take(entry);
    }
    progress(scan.next);
    // The stream may bring entries before they are read here.
  } while (scan.next < log.next);
  log.holds = scan.holds;
  log.knowsHolds = true;
}
