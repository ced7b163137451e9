// What the page knows, and how it says in words what it is about.

import * as api from "./api.js";
import { element, patch } from "./dom.js";

export const $ = (id) => document.getElementById(id);

export const state = {
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
  /** Whether the page is out of sight and listens to nothing. */
  suspended: false,
  /** Why the service does not show the chosen account. */
  refused: undefined,
};

const WORDS = { connecting: "connecting", live: "live", reconnecting: "reconnecting", unauthorised: "not authorised", refused: "not available" };

export function link(next, detail = "") {
  const text = detail ? `${WORDS[next]} – ${detail}` : WORDS[next];
  const status = $("status");
  if (status.dataset.state === next && status.lastElementChild.textContent === text) return;
  state.link = next;
  state.refused = next === "refused" ? detail : undefined;
  status.dataset.state = next;
  status.lastElementChild.textContent = text;
}

export function say(text, kind = "error") {
  const message = $("message");
  message.hidden = !text;
  message.dataset.kind = kind;
  message.setAttribute("role", kind === "error" ? "alert" : "status");
  message.textContent = text;
}

export function failed(error) {
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

export function nothing(title, words, ...more) {
  $("detail").hidden = true;
  $("nothing").hidden = false;
  patch($("nothing"), [element("h2", {}, title), element("p", {}, words), ...more]);
}
