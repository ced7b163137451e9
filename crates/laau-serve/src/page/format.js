// Numbers, times and names in words.

const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });
const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function number(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9 || (size > 0 && size < 1e-4)) return value.toExponential(3);
  return size >= 1e5 ? grouped.format(value) : plain.format(value);
}

export const count = (value) => (Number.isFinite(value) ? grouped.format(value) : "–");
export const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–");

/** A vector, at most `most` of its values. */
export function vector(values, most = 4) {
  if (!Array.isArray(values) || values.length === 0) return "–";
  const shown = values.slice(0, most).map(number).join(", ");
  return values.length > most ? `${shown}, … (${values.length})` : shown;
}

export function duration(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
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
