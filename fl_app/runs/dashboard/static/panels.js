// SPDX-License-Identifier: GPL-3.0-or-later
// What is text on the page: tiles, the table of clients, settings, the log, and the table of a comparison.

import { DASH, duration, element, fixed, percent, table } from "./format.js";
import { colour, dash } from "./theme.js";

const byId = (id) => document.getElementById(id);

/** Accuracy, and other figures, that a run has had last. */
export function latest(run, column) {
  const values = run.curves.columns[column] ?? [];
  for (let place = values.length - 1; place >= 0; place -= 1) if (values[place] != null) return values[place];
  return null;
}

export function best(run, column) {
  const known = (run.curves.columns[column] ?? []).filter((value) => value != null);
  return known.length ? Math.max(...known) : null;
}

export function tiles(run) {
  const last = run.status?.last ?? {}, total = Number(run.settings?.run?.rounds ?? 0), done = run.curves.rounds;
  const left = run.status?.state === "running" && done ? (total - done) * (latest(run, "seconds") ?? 0) : null;
  const own = latest(run, "test_accuracy") == null ? Object.keys(run.curves.columns).slice(14)[0] : null;
  const figures = [
    ["round", `${done} / ${total || DASH}`, left ? `${duration(left)} left` : `${duration(latest(run, "seconds"))} each`],
    own ? [own.replaceAll("_", " "), fixed(latest(run, own), 3), "test set"]
      : ["test accuracy", percent(latest(run, "test_accuracy")), `best ${percent(best(run, "test_accuracy"))}`],
    ["loss", fixed(last.loss, 3), latest(run, "test_loss") == null ? "" : `test ${fixed(latest(run, "test_loss"), 3)}`],
    ["age of update", fixed(last.mean_aou, 1), `oldest ${last.max_aou ?? DASH} rounds`],
    ["vote errors", percent(last.vote_error_rate), last.tie_share == null ? "" : `ties ${percent(last.tie_share)}`],
    ["on the air", duration(run.status?.air_total), last.air_seconds == null ? "" : `${duration(last.air_seconds)} a round`],
    ["SNR", last.snr_db == null ? DASH : `${fixed(last.snr_db, 1)} dB`, last.pmepr_db == null ? "" : `PMEPR ${fixed(last.pmepr_db, 1)} dB`],
  ];
  byId("tiles").replaceChildren(...figures.map(([what, value, note]) =>
    element("div", { class: "tile" }, element("span", {}, what), element("b", {}, value), element("small", {}, note))));
}

export function clients(run) {
  const known = run.snapshot?.clients ?? [], panel = byId("table");
  panel.hidden = !known.length;
  const number = (text) => ({ text, number: true });
  const headings = [number("client"), { text: "state" }, { text: "radio" }, number("offset (samples)"), number("power (dB)"),
    number("CFO (Hz)"), number("loss"), number("trained in")];
  const rows = known.map((one) => [String(one.client), one.state, one.radio || DASH, fixed(one.offset_samples, 3),
    fixed(one.power_db, 1), fixed(one.cfo_hz, 1), fixed(one.loss, 3), duration(one.seconds)]);
  const more = (run.snapshot?.n_clients ?? 0) - known.length;
  panel.replaceChildren(element("h3", {}, more > 0 ? `Clients (the first ${known.length}; ${more} more)` : "Clients"), table(headings, rows));
}

export function settings(run) {
  const sections = Object.entries(run.settings ?? {}), panel = byId("settings");
  panel.hidden = !sections.length;
  panel.querySelector(".settings").replaceChildren(...sections.map(([name, values]) =>
    table([{}, {}], Object.entries(values), `[${name}]`)));
}

let chosenLog = "run";

export function log(run) {
  const logs = run.log ?? {}, names = Object.keys(logs), panel = byId("log"), text = panel.querySelector("pre");
  panel.hidden = !names.length;
  if (!names.includes(chosenLog)) chosenLog = names[0] ?? "run";
  const isAtEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
  panel.querySelector(".tabs").replaceChildren(...(names.length < 2 ? [] : names.map((name) => {
    const button = element("button", { "aria-pressed": String(name === chosenLog) }, name);
    button.addEventListener("click", () => { chosenLog = name; log(run); });
    return button;
  })));
  text.textContent = (logs[chosenLog] ?? []).join("\n");
  if (isAtEnd) text.scrollTop = text.scrollHeight;
}

/** The table of a comparison, with the key of the curves. */
export function comparison(runs) {
  const panel = byId("table"), number = (text) => ({ text, number: true });
  const headings = [{ text: "run" }, { text: "policy" }, { text: "air" }, number("round"), number("accuracy"), number("best"),
    number("loss"), number("AoU"), number("vote errors"), number("on the air")];
  const rows = runs.map((run, n) => {
    const key = element("span", {}, element("i", { class: `swatch ${dash(n)}`, style: `border-color:${colour(n)}` }), run.id);
    const last = run.status?.last ?? {}, word = (section, name) => (run.settings?.[section]?.[name] ?? DASH).replaceAll('"', "");
    return [key, word("selection", "policy"), word("air", "name"), String(run.curves.rounds), percent(latest(run, "test_accuracy")),
      percent(best(run, "test_accuracy")), fixed(last.loss, 3), fixed(last.mean_aou, 1), percent(last.vote_error_rate), duration(run.status?.air_total)];
  });
  panel.hidden = !rows.length;
  panel.replaceChildren(element("h3", {}, "Runs side by side"), table(headings, rows), differences(runs));
}

/** The settings in which the runs differ. */
function differences(runs) {
  const keys = new Set(runs.flatMap((run) => Object.entries(run.settings ?? {}).flatMap(([section, values]) => Object.keys(values).map((key) => `${section}.${key}`))));
  const value = (run, key) => { const [section, name] = key.split("."); return run.settings?.[section]?.[name] ?? DASH; };
  const apart = [...keys].filter((key) => new Set(runs.map((run) => value(run, key))).size > 1);
  if (!apart.length || runs.length < 2) return null;
  const rows = apart.map((key) => [key, ...runs.map((run) => value(run, key))]);
  return element("div", { style: "margin-top:.8rem" }, table([{ text: "settings that differ" }, ...runs.map((run) => ({ text: run.id }))], rows));
}
