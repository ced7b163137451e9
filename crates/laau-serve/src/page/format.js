// Numbers, times and names in words.

const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function number(value, format = plain) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9 || (size > 0 && size < 1e-4)) return value.toExponential(3);
  return size >= 1e5 ? grouped.format(value) : format.format(value);
}

export const count = (value) => (Number.isFinite(value) ? grouped.format(value) : "–");
export const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–");

/** A vector, at most `most` of its values. */
export function vector(values, most = 4) {
  if (!Array.isArray(values) || values.length === 0) return "–";
  const shown = values.slice(0, most).map((value) => number(value, short)).join(", ");
  return values.length > most ? `${shown}, … (${values.length})` : shown;
}

/** A length of time by its two largest parts. */
export function duration(milliseconds) {
  let rest = Math.max(0, Math.floor(milliseconds / 1000));
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    const whole = Math.floor(rest / size);
    rest -= whole * size;
    if (whole > 0) parts.push(`${whole} ${unit}`);
    if (parts.length > 0 && (parts.length === 2 || whole === 0)) break;
  }
  return parts.join(" ") || "0 s";
}

export function time(milliseconds) {
  if (!Number.isFinite(milliseconds)) return "–";
  const date = new Date(milliseconds);
  const clock = date.toLocaleTimeString("en-GB");
  return Date.now() - milliseconds < 86400000 / 2 ? clock : `${date.toLocaleDateString("en-CA")} ${clock}`;
}

/** The policy in words: its name or its file. */
export function policy(source) {
  if (!source) return "–";
  return source.name ?? source.file ?? "–";
}
