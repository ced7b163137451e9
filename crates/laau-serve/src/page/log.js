// What a page remembers of a period: a bounded number of points, the latest decisions, and the holds that are open.

const LATEST = 100;

/** A curve of bounded size: neighbours are merged, so that no extreme is lost, once there are too many. */
export class Curve {
  points = [];
  #width = 1;

  constructor(capacity = 2048) {
    this.capacity = capacity;
  }

  push(x, values) {
    const last = this.points.at(-1);
    if (last && last.count < this.#width && last.low.length === values.length) {
      merge(last, point(x, values));
    } else {
      this.points.push(point(x, values));
    }
    if (this.points.length > this.capacity) {
      this.points = pairs(this.points);
      this.#width *= 2;
    }
  }

  /** At most `most` points to draw. */
  reduced(most) {
    let points = this.points;
    while (points.length > most) points = pairs(points);
    return points;
  }
}

function point(x, values) {
  return { x, last: values, low: values.slice(), high: values.slice(), sum: values.slice(), count: 1 };
}

function merge(into, other) {
  into.x = other.x;
  into.last = other.last;
  into.count += other.count;
  for (let k = 0; k < into.low.length; k += 1) {
    into.low[k] = Math.min(into.low[k], other.low[k]);
    into.high[k] = Math.max(into.high[k], other.high[k]);
    into.sum[k] += other.sum[k];
  }
}

function pairs(points) {
  const out = [];
  for (let i = 0; i < points.length; i += 2) {
    const one = points[i];
    const merged = { ...one, low: one.low.slice(), high: one.high.slice(), sum: one.sum.slice() };
    if (i + 1 < points.length && points[i + 1].low.length === one.low.length) merge(merged, points[i + 1]);
    out.push(merged);
  }
  return out;
}

/** The log of one period of an account, as far as the page has read it. */
export class PeriodLog {
  constructor(number) {
    this.number = number;
    this.next = 0;
    /** Whether parts of the log were left out: curves are then samples. */
    this.sampled = false;
    /** Whether `holds` has every open hold, and not only those decided since the last gap. */
    this.knowsHolds = true;
    this.budgets = undefined;
    this.steps = undefined;
    this.passed = 0;
    this.decisions = 0;
    this.acted = 0;
    this.remaining = new Curve();
    this.price = new Curve();
    this.action = new Curve();
    this.guarded = new Curve(256);
    this.holds = new Map();
    this.latest = [];
    this.used = new Map();
    this.began = undefined;
  }

  /** Takes an entry in; says whether it was new. Entries that were skipped are noted. */
  take(entry) {
    if (entry.number < this.next) return false;
    if (entry.number > this.next) {
      // What was held before the gap may have been settled in it.
      this.sampled = true;
      this.knowsHolds = false;
      this.holds.clear();
    }
    this.next = entry.number + 1;
    const event = entry.event;
    switch (event.event) {
      case "opened":
        this.budgets = event.budgets;
        this.steps = event.horizon;
        this.began = event.at;
        this.remaining.push(0, event.budgets);
        break;
      case "decided":
      case "granted":
        this.#decided(entry, answer(entry));
        break;
      case "settled":
      case "released":
        this.#closed(event, answer(entry));
        break;
      case "skipped":
        this.passed += event.steps;
        break;
    }
    return true;
  }

  #decided(entry, given) {
    const event = entry.event;
    const id = given.decision ?? `${entry.period}-?`;
    const horizon = given.horizon ?? this.steps;
    // Steps that passed unused shorten the horizon: they count as passed here, as they do against the even pace.
    if (Number.isFinite(given.step) && !given.beyond_horizon) {
      this.passed = given.step + 1 + Math.max(0, (this.steps ?? horizon) - horizon);
    } else {
      this.passed += 1;
    }
    this.decisions += 1;
    const action = event.action ?? given.action;
    if (given.remaining) this.remaining.push(this.passed, given.remaining);
    if (given.multiplier) this.price.push(this.passed, given.multiplier);
    if (action) this.action.push(this.passed, action);
    if (given.guarded) {
      this.acted += 1;
      this.guarded.push(this.passed, [1]);
    }
    const decision = {
      id,
      at: event.at,
      context: event.context,
      action,
      price: given.multiplier,
      held: given.held,
      key: entry.request?.key,
      guarded: given.guarded === true,
      beyond: event.event === "granted" || given.beyond_horizon === true,
      fallback: given.fallback,
      warning: given.warning,
    };
    this.holds.set(id, decision);
    this.latest.push(decision);
    if (this.latest.length > 2 * LATEST) {
      this.latest = this.latest.slice(-LATEST);
      const kept = new Set(this.latest.map((one) => one.id));
      for (const one of this.used.keys()) if (!kept.has(one)) this.used.delete(one);
    }
  }

  #closed(event, given) {
    const id = `${this.number}-${event.hold}`;
    this.holds.delete(id);
    this.used.set(id, event.event === "released" ? "released" : event.usage);
    if (given.remaining) this.remaining.push(this.passed, given.remaining);
  }
}

function answer(entry) {
  const stored = entry.request?.answer;
  if (typeof stored !== "string") return stored ?? {};
  try {
    return JSON.parse(stored) ?? {};
  } catch {
    return {};
  }
}
