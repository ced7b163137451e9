// The server: requests with the key of this tab, and its stream of events.

const STORAGE = "laau-key";
const QUIET_MS = 60_000;

export const key = {
  get: () => sessionStorage.getItem(STORAGE) ?? "",
  set: (value) => (value ? sessionStorage.setItem(STORAGE, value) : sessionStorage.removeItem(STORAGE)),
};

/** What the server says is wrong, in its own words. */
export class Problem extends Error {
  constructor(status, kind, detail) {
    super(detail);
    this.status = status;
    this.kind = kind;
  }
  get unauthorised() {
    return this.status === 401;
  }
}

function headers(more = {}) {
  const secret = key.get();
  return secret ? { ...more, Authorization: `Bearer ${secret}` } : more;
}

async function problem(response) {
  if (response.type === "opaqueredirect") {
    return new Problem(307, "elsewhere", "another node owns this account: open the page of that node");
  }
  let document = {};
  try {
    document = await response.json();
  } catch {
    // Not every refusal has a body: a proxy may have answered.
  }
  const detail = document.detail ?? document.title ?? `the server answered ${response.status}`;
  return new Problem(response.status, document.kind ?? "", String(detail));
}

export const path = (...parts) => "/v1/" + parts.map(encodeURIComponent).join("/");

const sleep = (milliseconds, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });

/** Reads JSON; waits and asks again while the server is too busy. */
export async function get(address, signal) {
  for (let tries = 0; ; tries += 1) {
    const response = await fetch(address, { headers: headers(), signal, cache: "no-store", redirect: "manual" });
    if (response.ok) return response.json();
    const busy = response.status === 429 || response.status === 503;
    if (!busy || tries === 4) throw await problem(response);
    await sleep(1000 * (Number(response.headers.get("Retry-After")) || 1), signal);
  }
}

export async function post(address, idempotencyKey) {
  const response = await fetch(address, { method: "POST", headers: headers({ "Idempotency-Key": idempotencyKey }), redirect: "manual" });
  if (!response.ok) throw await problem(response);
  return response.json();
}

/**
 * Follows a stream of server-sent events until `signal` says otherwise. A stream that ends or falls silent is asked for
 * anew, after a pause that doubles up to 15 s. `on.state(state, detail)` hears of every change, `on.open()` of every
 * connection, before its first event: what happened in between must be read then.
 */
export async function follow(address, on, signal) {
  let pause = 500;
  while (!signal.aborted) {
    let heard = false;
    try {
      await stream(address, on, signal, () => (heard = true));
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && [401, 403, 404, 410, 307].includes(error.status)) {
        on.state(error.unauthorised ? "unauthorised" : "refused", error.message);
        return;
      }
    }
    if (signal.aborted) return;
    if (heard) pause = 500;
    // Not all pages at the same moment after a restart.
    const wait = pause * (0.75 + 0.5 * Math.random());
    pause = Math.min(2 * pause, 15_000);
    on.state("reconnecting", `again in ${Math.max(1, Math.round(wait / 1000))} s`);
    try {
      await sleep(wait, signal);
    } catch {
      return;
    }
  }
}

async function stream(address, on, signal, heard) {
  const connection = new AbortController();
  const stop = () => connection.abort();
  signal.addEventListener("abort", stop, { once: true });
  let watch;
  const alive = () => {
    clearTimeout(watch);
    watch = setTimeout(stop, QUIET_MS);
  };
  try {
    alive();
    const response = await fetch(address, {
      headers: headers({ Accept: "text/event-stream" }),
      signal: connection.signal,
      cache: "no-store",
      redirect: "manual",
    });
    if (!response.ok) throw await problem(response);
    heard();
    on.open();
    const parser = new Parser(on.event);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      parser.push(value);
    }
  } finally {
    clearTimeout(watch);
    signal.removeEventListener("abort", stop);
    connection.abort();
  }
}

/** Server-sent events from text in pieces of any size. */
export class Parser {
  #rest = "";
  #data = [];
  #name = "";
  #event;

  constructor(event) {
    this.#event = event;
  }

  push(text) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line);
  }

  #line(line) {
    if (line === "") {
      if (this.#data.length > 0) this.#event(this.#name || "message", this.#data.join("\n"));
      this.#data = [];
      this.#name = "";
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    if (field === "event") this.#name = value;
  }
}
