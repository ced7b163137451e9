// Before the first paint, so that a chosen theme does not flash. The choice is a matter of taste, not a secret: it is kept.
"use strict";
try {
  const chosen = localStorage.getItem("laau-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be forbidden; the system's preference then holds.
}
