// What people do with the page.

import * as api from "./api.js";
import { relist, soon, unsearched } from "./draw.js";
import { count, vector } from "./format.js";
import { findHolds } from "./history.js";
import { choose, poll, resume, suspend } from "./session.js";
import { $, failed, link, say, state } from "./state.js";

/** A look at another tab is no reason to start anew. */
const HIDDEN_MS = 30_000;

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
  relist();
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
addEventListener("pagehide", suspend);
addEventListener("pageshow", (event) => event.persisted && resume());
let hidden;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hidden);
  if (document.hidden) {
    hidden = setTimeout(suspend, HIDDEN_MS);
  } else {
    resume();
    soon();
  }
});
// Ages and what is left of a period by the clock go on without events.
setInterval(() => state.chosen && soon(), 1000);
poll();
