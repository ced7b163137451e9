"use strict";
const runs = JSON.parse(document.getElementById("history").textContent);
/* Per machine, the last run of each work. */
const compared = JSON.parse(document.getElementById("latest").textContent);
const $ = (id) => document.getElementById(id);
const COLOURS = ["var(--blue)", "var(--orange)", "var(--green)", "var(--red)", "var(--quiet)"];
const DASHES = ["", "7 4", "2 3"];
const WORKS = { "train": "Training, N = 20, batch 10", "layer-8x3": "Layer d = 8, M = 3", "wide/d=64,M=4": "Layer d = 64, M = 4",
  "wide/d=256,M=4": "Layer d = 256, M = 4", "wide/d=1024,M=4": "Layer d = 1,024, M = 4", "layer-scalar": "Layer d = 1, M = 1",
  "solve-8x3": "One solve d = 8, M = 3", "decision": "One decision" };

/* ---- words and numbers ---- */
const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const digits = (value) => value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
function human(value, measure) {
  if (!Number.isFinite(value)) return "–";
  const steps = measure === "latency" ? [[1e9, " s"], [1e6, " ms"], [1e3, " µs"], [1, " ns"]] : [[1e9, " G"], [1e6, " M"], [1e3, " k"], [1, ""]];
  const [unit, name] = steps.find(([unit]) => value >= unit) ?? steps.at(-1);
  return digits(value / unit) + name;
}
const when = (run) => new Date(run.time * 1000).toISOString().slice(0, 16).replace("T", " ");
const place = (run) => `${run.machine.cpu}, ${run.machine.cores} threads, ${run.machine.rustc}`;
function parse(id) {
  const at = id.lastIndexOf("/"), sizes = {};
  for (const pair of id.slice(at + 1).split(",")) {
    const [key, value] = pair.split("=");
    if (value === undefined || !Number.isFinite(+value)) return { name: id, sizes: {} };
    sizes[key] = +value;
  }
  return { name: id.slice(0, at), sizes };
}

/* ---- what is shown ---- */
const state = { machine: "", measure: "instructions", value: "low", find: "", sort: "change", down: true, chosen: null, curve: null };
const shown = () => runs.filter((run) => place(run) === state.machine);
function series(id) {
  return shown().flatMap((run) => {
    const figure = run.figures.find((f) => f.id === id && f.measure === state.measure);
    return figure ? [{ run, value: figure[state.value], figure }] : [];
  });
}
function rows() {
  const ids = new Set(shown().flatMap((run) => run.figures.filter((f) => f.measure === state.measure).map((f) => f.id)));
  return [...ids].filter((id) => id.toLowerCase().includes(state.find)).map((id) => {
    const points = series(id), last = points.at(-1), before = points.at(-2);
    const before_all = points.slice(0, -1).map((p) => p.figure);
    const is_noise = state.measure === "latency" && before_all.length > 0
      && last.value >= Math.min(...before_all.map((f) => f.low)) && last.value <= Math.max(...before_all.map((f) => f.high));
    return { id, points, is_noise, latest: last.value, previous: before?.value ?? NaN, change: before ? last.value / before.value - 1 : NaN, runs: points.length };
  });
}

/* ---- drawing ---- */
const W = 1100, H = 300, L = 74, R = 16, T = 14, B = 44;
function ticks(low, high, log) {
  if (!log) {
    const step = 10 ** Math.floor(Math.log10((high - low) / 4 || 1)), fine = [1, 2, 5, 10].map((k) => k * step).find((s) => (high - low) / s <= 6);
    return Array.from({ length: 12 }, (_, k) => (Math.ceil(low / fine) + k) * fine).filter((v) => v <= high);
  }
  const all = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) for (const k of [1, 2, 5]) all.push(k * 10 ** e);
  const inside = all.filter((v) => v >= low * .999 && v <= high * 1.001);
  return inside.length > 9 ? inside.filter((v) => Math.abs(Math.log10(v) % 1) < 1e-9) : inside;
}
const dash = (k) => DASHES[Math.floor(k / COLOURS.length) % DASHES.length];
function chart(target, lines, { logX, logY, xName, xText, yText }) {
  const points = lines.flatMap((line) => line.points);
  if (!points.length) { target.innerHTML = "<p>Nothing was measured yet.</p>"; return; }
  const f = (v, log) => log ? Math.log(v) : v;
  const span = (values, log, pad) => {
    let low = Math.min(...values), high = Math.max(...values);
    if (low === high) [low, high] = log ? [low / 1.5, high * 1.5] : [low - (pad ? Math.abs(low) * .1 || 1 : .5), high + (pad ? Math.abs(high) * .1 || 1 : .5)];
    else if (pad) log ? (low /= 1.15, high *= 1.15) : (low -= (high - low) * .1, high += (high - low) * .1);
    return [low, high];
  };
  const [x0, x1] = span(points.map((p) => p.x), logX, false), [y0, y1] = span(points.map((p) => p.y), logY, true);
  const X = (v) => L + (W - L - R) * (f(v, logX) - f(x0, logX)) / (f(x1, logX) - f(x0, logX));
  const Y = (v) => H - B - (H - T - B) * (f(v, logY) - f(y0, logY)) / (f(y1, logY) - f(y0, logY));
  const xTicks = [...new Set(points.map((p) => p.x))].sort((a, b) => a - b);
  const every = Math.ceil(xTicks.length / 12);
  let svg = `<svg viewBox="0 0 ${W} ${H}" role="img">`;
  for (const v of ticks(y0, y1, logY)) svg += `<line class="grid" x1="${L}" x2="${W - R}" y1="${Y(v)}" y2="${Y(v)}"/><text x="${L - 8}" y="${Y(v) + 4}" text-anchor="end">${escape(yText(v))}</text>`;
  xTicks.forEach((v, k) => { if (k % every === 0) svg += `<text x="${X(v)}" y="${H - B + 18}" text-anchor="${X(v) > W - 60 ? "end" : "middle"}">${escape(xText(v))}</text>`; });
  svg += `<text class="strong" x="${(L + W - R) / 2}" y="${H - 6}" text-anchor="middle">${escape(xName)}</text>`;
  lines.forEach((line, k) => {
    const colour = COLOURS[k % COLOURS.length], sorted = [...line.points].sort((a, b) => a.x - b.x);
    svg += `<path fill="none" stroke="${colour}" stroke-width="2" stroke-dasharray="${dash(k)}" d="M${sorted.map((p) => `${X(p.x).toFixed(1)} ${Y(p.y).toFixed(1)}`).join("L")}"/>`;
    for (const p of sorted) svg += `<circle cx="${X(p.x)}" cy="${Y(p.y)}" r="4.5" fill="${dash(k) ? "var(--card)" : colour}" stroke="${dash(k) ? colour : "var(--card)"}" data-tip="${escape(p.tip)}"/>`;
  });
  svg += "</svg>";
  if (lines.length > 1 || lines[0].label) svg += `<div class="legend">${lines.map((line, k) => `<span><svg viewBox="0 0 34 10" aria-hidden="true"><path stroke="${COLOURS[k % COLOURS.length]}" stroke-width="3" stroke-dasharray="${dash(k)}" d="M1 5L33 5"/></svg>${escape(line.label)}</span>`).join("")}</div>`;
  target.innerHTML = svg;
}
function spark(points) {
  if (points.length < 2) return "";
  const values = points.map((p) => p.value), low = Math.min(...values), high = Math.max(...values);
  const at = (v, k) => `${(k * 76 / (values.length - 1) + 2).toFixed(1)} ${(18 - 14 * (high > low ? (v - low) / (high - low) : .5)).toFixed(1)}`;
  return `<svg viewBox="0 0 80 20" style="width:80px;height:20px;margin:0 0 0 auto" aria-hidden="true"><path fill="none" stroke="var(--blue)" stroke-width="1.5" d="M${values.map(at).join("L")}"/></svg>`;
}

/* ---- sections ---- */
function table() {
  const list = rows(), key = state.sort, missing = (v) => typeof v === "number" && !Number.isFinite(v);
  list.sort((a, b) => missing(a[key]) - missing(b[key]) || (a[key] < b[key] ? -1 : a[key] > b[key] ? 1 : 0) * (state.down ? -1 : 1) || (a.id < b.id ? -1 : 1));
  if (!list.some((row) => row.id === state.chosen)) state.chosen = list[0]?.id ?? null;
  $("figures").innerHTML = list.map((row) => {
    const percent = 100 * row.change, kind = Math.abs(percent) < 1 || row.is_noise ? "" : percent > 0 ? "slower" : "faster";
    const word = row.is_noise && Math.abs(percent) >= 1 ? "noise" : state.measure === "latency" ? kind : { slower: "more", faster: "fewer" }[kind] ?? "";
    const change = Number.isFinite(percent) ? `<span class="${kind}">${percent > 0 ? "+" : ""}${percent.toFixed(1)} % ${word}</span>` : "–";
    return `<tr data-id="${escape(row.id)}" tabindex="0"${row.id === state.chosen ? ' class="chosen"' : ""}><td class="name">${escape(row.id)}</td><td>${human(row.previous, state.measure)}</td><td>${human(row.latest, state.measure)}</td><td>${change}</td><td>${row.runs}</td><td>${spark(row.points)}</td></tr>`;
  }).join("");
  for (const th of document.querySelectorAll("#changes th[data-sort]")) th.setAttribute("aria-sort", th.dataset.sort === key ? (state.down ? "descending" : "ascending") : "none");
  $("count").textContent = `${list.length} figures`;
  trend();
}
function trend() {
  $("trend-name").textContent = state.chosen ?? "nothing";
  const points = state.chosen ? series(state.chosen) : [];
  chart($("trend"), points.length ? [{ label: "", points: points.map((p, k) => ({ x: k + 1, y: p.value, tip: `${human(p.value, state.measure)}\n${p.run.commit}, ${when(p.run)}\nleast ${human(p.figure.low, state.measure)}, median ${human(p.figure.value, state.measure)}` })) }] : [],
    { xName: "run, oldest first", xText: (v) => points[v - 1] ? points[v - 1].run.commit.slice(0, 7) : "", yText: (v) => human(v, state.measure) });
}
function curves() {
  const found = new Map();
  for (const run of shown()) for (const figure of run.figures) {
    if (figure.measure !== state.measure) continue;
    const { name, sizes } = parse(figure.id);
    for (const size of Object.keys(sizes)) {
      const rest = Object.entries(sizes).filter(([key]) => key !== size).map(([key, value]) => `${key}=${value}`).join(", ");
      const key = `${name} by ${size}`;
      if (!found.has(key)) found.set(key, { size, lines: new Map() });
      const lines = found.get(key).lines;
      if (!lines.has(rest)) lines.set(rest, new Map());
      lines.get(rest).set(sizes[size], { y: figure[state.value], run });
    }
  }
  for (const [key, curve] of found) {
    for (const [rest, points] of curve.lines) if (points.size < 2) curve.lines.delete(rest);
    if (!curve.lines.size) found.delete(key);
  }
  return found;
}
function growth() {
  const found = curves(), names = [...found.keys()].sort();
  if (!found.has(state.curve)) state.curve = names.find((name) => name.startsWith("opt/interior-point by N")) ?? names[0] ?? null;
  $("curve").innerHTML = names.map((name) => `<option${name === state.curve ? " selected" : ""}>${escape(name)}</option>`).join("");
  if (!state.curve) { chart($("growth"), [], {}); return; }
  const { size, lines } = found.get(state.curve);
  const drawn = [...lines].sort((a, b) => b[1].size - a[1].size).slice(0, 5).map(([rest, points]) => {
    const sorted = [...points].sort((a, b) => a[0] - b[0]), from = sorted[Math.floor(sorted.length / 2) - (sorted.length <= 3 ? 1 : 0)], to = sorted.at(-1);
    const slope = Math.log(to[1].y / from[1].y) / Math.log(to[0] / from[0]);
    return { label: `${rest || "all sizes"}: exponent ${slope.toFixed(2)} in the upper half`, points: sorted.map(([x, p]) => ({ x, y: p.y, tip: `${size} = ${x}: ${human(p.y, state.measure)}\n${rest}\n${p.run.commit}` })) };
  });
  chart($("growth"), drawn, { logX: true, logY: true, xName: `${size} (both axes logarithmic)`, xText: (v) => v.toLocaleString("en"), yText: (v) => human(v, state.measure) });
}
const latest = () => compared.find((one) => place(one) === state.machine);
function peers() {
  const { found, commits } = latest() ?? {};
  if (!found) { $("peers").innerHTML = "<p>No comparison with peers was run on this machine.</p>"; return; }
  const works = Object.keys(WORKS).filter((work) => found.cases.some((c) => c.work === work && c.peer === "laau"));
  const chosen = works.includes($("work").value) ? $("work").value : works[0];
  $("work").innerHTML = works.map((work) => `<option value="${escape(work)}"${work === chosen ? " selected" : ""}>${escape(WORKS[work])}</option>`).join("");
  const missing = found.failures.map((f) => `${f.peer} (${f.work}): ${f.reason} (${f.commit})`).join("; ");
  const failed = missing ? `Not measured: ${escape(missing)}.` : "Nothing failed.";
  if (!works.length) { $("peers").innerHTML = `<p>None of these works was measured on this machine. ${failed}</p>`; return; }
  const work = $("work").value, at = state.value === "low" ? "least" : "median";
  const cases = found.cases.filter((c) => c.work === work).sort((a, b) => a[at] - b[at]);
  const ours = cases.find((c) => c.peer === "laau");
  const ratio = (c) => c[at] / ours[at], most = Math.max(...cases.map(ratio), 10), least = Math.min(1, ...cases.map(ratio));
  const X = (v) => 420 + 560 * Math.log(v / least) / Math.log(most / least);
  const high = cases.length * 26 + 34;
  let svg = `<svg viewBox="0 0 ${W} ${high}" role="img">`;
  for (let v = 1; v <= most * 1.001; v *= 10) svg += `<line class="grid" x1="${X(v)}" x2="${X(v)}" y1="0" y2="${high - 24}"/><text x="${X(v)}" y="${high - 8}" text-anchor="middle">${v.toLocaleString("en")}×</text>`;
  cases.forEach((c, k) => {
    const y = k * 26 + 4, facts = [`${c.least.toPrecision(3)} µs least, ${c.median.toPrecision(3)} µs median`];
    if (c.error_action !== undefined) facts.push(`error of actions ${c.error_action.toExponential(0)}`);
    if (c.error_gradient !== undefined) facts.push(`of gradients ${c.error_gradient.toExponential(0)}`);
    if (c.violation) facts.push(`budget exceeded by ${c.violation.toExponential(0)}`);
    const before = shown().filter((r) => r.peers && r.commit !== commits[work]).map((r) => { const o = r.peers.cases.find((d) => d.work === work && d.peer === "laau"), d = r.peers.cases.find((d) => d.work === work && d.peer === c.peer && d.variant === c.variant && d.precision === c.precision); return o && d ? (d[at] / o[at]).toPrecision(3) : null; }).filter(Boolean);
    if (before.length) facts.push(`ratio before: ${before.join(", ")}`);
    svg += `<text class="strong" x="410" y="${y + 14}" text-anchor="end">${escape(`${c.peer}: ${c.variant}, ${c.precision}`)}</text><rect class="${c.peer === "laau" ? "ours" : "theirs"}" x="${X(least)}" y="${y}" width="${Math.max(3, X(ratio(c)) - X(least))}" height="18" rx="3" data-tip="${escape(facts.join("\n"))}"/><text class="strong" x="${X(ratio(c)) + 8}" y="${y + 14}">${ratio(c) < 10 ? ratio(c).toFixed(1) : Math.round(ratio(c)).toLocaleString("en")}×</text>`;
  });
  const kept = found.strict.map((s) => `<tr><td>${escape(s.peer)}: ${escape(s.variant)}</td><td>${s.overspent} of ${s.episodes}</td><td>${s.worst ? s.worst.toExponential(0) : "0"}</td><td>${s.aborted} of ${s.episodes}</td></tr>`).join("");
  $("peers").innerHTML = `${svg}</svg><p>${escape(`Measured at ${commits[work]}.`)} ${failed}</p><div class="scroll"><table id="strict"><thead><tr><th>strict budgets, 20 steps${commits.strict ? `, at ${escape(commits.strict)}` : ""}</th><th>overspent</th><th>by at most</th><th>aborted</th></tr></thead><tbody>${kept}</tbody></table></div>`;
}
function grid() {
  const { found, commits } = latest() ?? {}, cases = found?.cases.filter((c) => c.work.startsWith("grid/")) ?? [];
  if (!cases.length) { $("grid").innerHTML = "<p>Not measured on this machine.</p>"; return; }
  const at = state.value === "low" ? "least" : "median", axis = $("axis").value, rival = $("rival").value;
  const core = found.cases.find((c) => c.work === "peak"), works = new Map(), lines = new Map();
  for (const c of cases) works.set(c.work, [...works.get(c.work) ?? [], c]);
  for (const [work, cases] of works) {
    const { sizes } = parse(work), on_two = (c) => c.variant.endsWith("2 threads");
    const fastest = (is) => Math.min(...cases.filter(is).map((c) => c[at]));
    const ours = fastest((c) => c.peer === "laau" && (rival === "two" ? on_two(c) : !on_two(c) && c.precision === (rival === "f32" ? "f32" : "f64")));
    const theirs = fastest((c) => c.peer === "jax" && (rival === "two" ? on_two(c) : !on_two(c) && c.precision === rival));
    const operations = 2 * (sizes.N - 1) * sizes.batch * (3 * sizes.width ** 2 + 10 * sizes.width);
    const y = rival === "share" ? (core ? operations / ours * core.least / 1e3 : NaN) : theirs / ours;
    if (!Number.isFinite(y) || !y) continue;
    const rest = Object.entries(sizes).filter(([key]) => key !== axis).map(([key, value]) => `${key}=${value}`).join(", ");
    if (!lines.has(rest)) lines.set(rest, []);
    lines.get(rest).push({ x: sizes[axis], y, tip: `${work.slice(5)}: ${y.toFixed(2)}${rival === "share" ? " of the peak" : "×"}\n${digits(ours)} µs, ${commits[work]}` });
  }
  chart($("grid"), [...lines].map(([label, points]) => ({ label, points })), { logX: true, logY: rival !== "share", xName: `${axis} (logarithmic)`, xText: (v) => v.toLocaleString("en"), yText: (v) => rival === "share" ? v.toFixed(2) : `${v}×` });
}
function draw() { table(); growth(); peers(); grid(); }

/* ---- controls ---- */
const machines = [...new Set(runs.map(place))];
state.machine = runs.length ? place(runs.at(-1)) : "";
if (!shown().some((run) => run.figures.some((f) => f.measure === "instructions"))) state.measure = $("measure").value = "latency";
$("machine").innerHTML = machines.map((name) => `<option${name === state.machine ? " selected" : ""}>${escape(name)}</option>`).join("");
$("about").textContent = runs.length ? `${runs.length} runs, the last of commit ${runs.at(-1).commit} on ${when(runs.at(-1))} UTC.` : "No run yet: cargo xtask bench.";
for (const id of ["machine", "measure", "value"]) $(id).addEventListener("change", (event) => { state[id] = event.target.value; draw(); });
$("find").addEventListener("input", (event) => { state.find = event.target.value.toLowerCase(); table(); });
$("curve").addEventListener("change", (event) => { state.curve = event.target.value; growth(); });
$("work").addEventListener("change", peers);
for (const id of ["axis", "rival"]) $(id).addEventListener("change", grid);
for (const th of document.querySelectorAll("#changes th[data-sort]")) th.addEventListener("click", () => {
  state.down = state.sort === th.dataset.sort ? !state.down : th.dataset.sort !== "id";
  state.sort = th.dataset.sort;
  table();
});
const choose = (event) => { const row = event.target.closest("tr[data-id]"); if (row) { state.chosen = row.dataset.id; table(); } };
$("figures").addEventListener("click", choose);
$("figures").addEventListener("keydown", (event) => { if (event.key === "Enter") choose(event); });
document.addEventListener("pointermove", (event) => {
  const tip = event.target.closest?.("[data-tip]")?.dataset.tip;
  $("tip").hidden = !tip;
  if (tip) { $("tip").textContent = tip; $("tip").style.left = `${Math.min(event.clientX + 14, innerWidth - 320)}px`; $("tip").style.top = `${event.clientY + 14}px`; }
});
draw();
