// SPDX-License-Identifier: GPL-3.0-or-later
// Formats numbers for people, and makes elements of the page.

export const DASH = "–";

export function percent(share, digits = 1) {
  return share == null ? DASH : `${(100 * share).toFixed(digits)} %`;
}

export function fixed(value, digits = 2) {
  return value == null ? DASH : value.toFixed(digits);
}

/** A duration with a unit that fits: 34.2 ms, 5.31 s, 4 min 10 s, 2 h 5 min. */
export function duration(seconds) {
  if (seconds == null) return DASH;
  if (seconds < 1) return `${(1000 * seconds).toPrecision(3)} ms`;
  if (seconds < 60) return `${seconds.toPrecision(3)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** An element with attributes and children; texts are never read as HTML. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

export function table(headings, rows, caption) {
  const cell = (kind) => (value, column) =>
    element(kind, { class: headings[column]?.number ? "number" : null }, value ?? DASH);
  const head = headings.some((one) => one.text)
    ? element("thead", {}, element("tr", {}, ...headings.map((one, column) => cell("th")(one.text, column)))) : null;
  const body = element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell("td")))));
  return element("table", {}, caption ? element("caption", {}, caption) : null, head, body);
}
