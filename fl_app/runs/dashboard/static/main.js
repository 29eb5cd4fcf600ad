// SPDX-License-Identifier: GPL-3.0-or-later
// Follows the server's events, and shows one run or a comparison, as the address says: #run=NAME or #compare=A&compare=B.

import { redraw, show } from "./charts.js";
import { compareCharts } from "./compare_charts.js";
import { element, fixed, percent } from "./format.js";
import * as panels from "./panels.js";
import { runCharts } from "./run_charts.js";
import { keepOnly, runs, take } from "./store.js";
import { startTheme } from "./theme.js";

const byId = (id) => document.getElementById(id);
const ticked = new Set();
let listed = [], source = null, drawPlanned = false;

/** What the address asks for. */
function wanted() {
  const words = new URLSearchParams(location.hash.slice(1));
  const compared = words.getAll("compare");
  if (compared.length) return { names: compared, isComparison: true };
  const name = words.get("run") ?? (listed.find((run) => run.state === "running") ?? listed[0])?.id;
  return { names: name ? [name] : [], isComparison: false };
}

function connect() {
  source?.close();
  source = null;
  const { names, isComparison } = wanted();
  keepOnly(names);
  if (isComparison) names.forEach((name) => ticked.add(name));
  source = new EventSource(`api/events?${new URLSearchParams(names.map((name) => ["run", name]))}`);
  source.names = names.join("\n");
  source.addEventListener("open", () => say("live", true));
  source.addEventListener("error", () => say("not connected", false));
  source.addEventListener("end", () => { source.close(); say("the server has ended", false); });
  source.addEventListener("runs", (event) => {
    listed = JSON.parse(event.data);
    list();
    if (source.names !== wanted().names.join("\n")) connect(); // the first run has appeared
    draw();
  });
  source.addEventListener("run", (event) => {
    take(JSON.parse(event.data));
    draw();
  });
  draw();
}

function say(text, isLive) {
  byId("link").textContent = text;
  byId("link").classList.toggle("live", isLive);
  byId("link").title = text;
}

/** Draws once for all events that come together. */
function draw() {
  if (drawPlanned) return;
  drawPlanned = true;
  setTimeout(() => {
    drawPlanned = false;
    drawNow();
  }, 60);
}

function drawNow() {
  const { names, isComparison } = wanted();
  const known = names.map((name) => runs.get(name)).filter(Boolean);
  const badge = byId("state"), state = known[0]?.status?.state;
  byId("empty").hidden = known.length > 0;
  if (names.length && !known.length) byId("empty").textContent = `Waiting for ${names.join(", ")}: a run has a folder after its first round.`;
  byId("title").textContent = isComparison ? `${names.length} runs` : names[0] ?? "";
  document.title = [isComparison ? "comparison" : names[0], "gr-oac"].filter(Boolean).join(" – ");
  badge.hidden = isComparison || !state;
  badge.className = `badge ${state}`;
  badge.textContent = state ?? "";
  byId("main").dataset.rounds = known.map((run) => run.curves.rounds).join(" ");
  if (isComparison || !known.length) {
    byId("tiles").replaceChildren();
    byId("settings").hidden = byId("log").hidden = true;
    panels.comparison(known);
    show(byId("charts"), known.length ? compareCharts(known) : []);
    return;
  }
  const [run] = known;
  panels.tiles(run);
  panels.clients(run);
  panels.settings(run);
  panels.log(run);
  show(byId("charts"), runCharts(run));
}

function list() {
  const { names } = wanted();
  for (const name of ticked) if (!listed.some((run) => run.id === name)) ticked.delete(name);
  byId("runs").replaceChildren(...listed.map((run) => {
    const box = element("input", { type: "checkbox", "aria-label": `Compare ${run.id}`, checked: ticked.has(run.id) });
    box.addEventListener("change", () => {
      if (box.checked) ticked.add(run.id);
      else ticked.delete(run.id);
      followTicks();
    });
    const figure = run.accuracy == null ? `loss ${fixed(run.loss, 3)}` : percent(run.accuracy);
    const link = element("a", { href: `#${new URLSearchParams({ run: run.id })}` },
      element("b", {}, run.id),
      element("small", {}, element("span", { class: run.state }, run.state),
        element("span", {}, `${run.rounds}/${run.total}`), element("span", {}, figure)),
      run.state === "running" ? element("progress", { max: run.total || 1, value: run.rounds, "aria-label": "rounds" }) : null);
    return element("li", { class: names.includes(run.id) ? "shown" : null }, box, link);
  }));
  byId("compare").disabled = ticked.size < 2;
  byId("compare").textContent = ticked.size < 2 ? "Compare" : `Compare ${ticked.size}`;
}

/** A comparison that is shown follows the ticks. */
function followTicks() {
  if (wanted().isComparison && ticked.size) compare();
  else list();
}

function compare() {
  location.hash = new URLSearchParams([...ticked].map((name) => ["compare", name])).toString();
}

byId("compare").addEventListener("click", compare);
byId("menu").addEventListener("click", () => {
  byId("menu").setAttribute("aria-expanded", String(byId("side").classList.toggle("open")));
});
addEventListener("hashchange", () => {
  byId("side").classList.remove("open");
  list();
  connect();
  scrollTo(0, 0);
});
// A hidden page takes no events: browsers allow few connections to a server.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) source?.close();
  else connect();
});
startTheme(byId("theme"), () => { redraw(); draw(); });
connect();
