// SPDX-License-Identifier: GPL-3.0-or-later
// Draws charts into cards. Only cards on the screen are drawn, and none more often than twice a second.

import { element } from "./format.js";
import { inks } from "./theme.js";

const LEAST_MS = 500; // milliseconds between two drawings of a chart
const cards = new Map(); // id -> card
const sight = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const card = cards.get(target.dataset.chart);
    if (card) card.isSeen = isIntersecting;
  }
  plan();
}, { rootMargin: "200px" });
let planned = 0;

/** Shows these charts, in this order: {id, title, note, figure}; figure() returns {data, layout} or a text. */
export function show(parent, charts) {
  const wanted = new Set(charts.map((chart) => chart.id));
  for (const [id, card] of cards) {
    if (wanted.has(id)) continue;
    sight.unobserve(card.root);
    if (card.plot) Plotly.purge(card.plot);
    card.root.remove();
    cards.delete(id);
  }
  charts.forEach((chart, place) => {
    const card = cards.get(chart.id) ?? add(chart.id);
    card.chart = chart;
    card.isStale = true;
    card.heading.textContent = chart.title;
    card.note.textContent = chart.note ?? "";
    if (parent.children[place] !== card.root) parent.insertBefore(card.root, parent.children[place] ?? null);
  });
  plan();
}

/** Draws all charts again: the theme is another. */
export function redraw() {
  for (const card of cards.values()) card.isStale = true;
  plan();
}

function add(id) {
  const heading = element("h3"), note = element("p", { class: "note" });
  const root = element("section", { class: "card", "data-chart": id }, heading, note);
  const card = { root, heading, note, plot: null, text: null, isSeen: false, isStale: true, drawn: 0 };
  cards.set(id, card);
  sight.observe(root);
  return card;
}

function plan() {
  if (planned) return;
  planned = setTimeout(() => {
    planned = 0;
    requestAnimationFrame(drawAll);
  }, 0);
}

function drawAll() {
  const now = performance.now();
  let later = Infinity;
  for (const card of cards.values()) {
    if (!card.isSeen || !card.isStale) continue;
    const wait = card.drawn + LEAST_MS - now;
    if (wait > 0) later = Math.min(later, wait);
    else draw(card, now);
  }
  if (later < Infinity && !planned) {
    planned = setTimeout(() => {
      planned = 0;
      requestAnimationFrame(drawAll);
    }, later);
  }
}

function draw(card, now) {
  card.isStale = false;
  card.drawn = now;
  const figure = card.chart.figure();
  if (typeof figure === "string") {
    if (card.plot) {
      Plotly.purge(card.plot);
      card.plot.remove();
      card.plot = null;
    }
    card.text ??= card.root.appendChild(element("div", { class: "nothing" }));
    card.text.textContent = figure;
    return;
  }
  card.text?.remove();
  card.text = null;
  card.plot ??= card.root.appendChild(element("div", { class: "plot" }));
  const options = { displayModeBar: false, responsive: true, scrollZoom: false };
  Plotly.react(card.plot, figure.data, layout(figure.layout ?? {}), options);
}

/** The look that all charts share. */
function layout(own) {
  const { text, soft, line } = inks();
  const axis = (given = {}) => ({
    gridcolor: line, zerolinecolor: line, linecolor: line, tickfont: { color: soft, size: 11 }, fixedrange: true,
    automargin: true, ...given, title: { text: given.title ?? "", font: { color: soft, size: 11 }, standoff: 6 },
  });
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: text, family: "system-ui, sans-serif" },
    margin: { l: 44, r: 10, t: 8, b: 36 }, hovermode: "x unified", dragmode: false, uirevision: "keep",
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11, color: soft } },
    hoverlabel: { font: { size: 11 } }, bargap: 0.08, showlegend: (own.curves ?? 2) > 1,
    ...own, xaxis: axis(own.xaxis), yaxis: axis(own.yaxis), ...(own.yaxis2 ? { yaxis2: axis(own.yaxis2) } : {}),
  };
}
