// SPDX-License-Identifier: GPL-3.0-or-later
// The charts of one run.

import { colour, dash, SYMBOLS } from "./theme.js";

const MOST_CLIENTS = 16; // clients whose curves are drawn
const PERCENT = { tickformat: ".0%", rangemode: "tozero" };
const ROUND = { title: "round" };

/** A curve with gaps closed: a round that measured nothing has no point. */
export function curve(x, y, name, n, more = {}) {
  const known = y.map((value, place) => place).filter((place) => y[place] != null);
  const few = known.length <= 30;
  return {
    type: "scatter", mode: few ? "lines+markers" : "lines", name,
    x: known.map((place) => x[place]), y: known.map((place) => y[place]),
    line: { color: colour(n), width: 2, dash: dash(n) }, marker: { size: 6, symbol: SYMBOLS[n % SYMBOLS.length] }, ...more,
  };
}

function lines(run, columns, layout, nothing) {
  const { x, columns: all } = run.curves;
  const data = columns
    .filter(([name]) => all[name]?.some((value) => value != null))
    .map(([name, title, more], n) => curve(x, all[name], title, n, more));
  return data.length ? { data, layout: { xaxis: ROUND, curves: data.length, ...layout } } : nothing;
}

function clientCurves(run, name, title) {
  const { rounds, [name]: values } = run.history;
  const n = Math.min(MOST_CLIENTS, values?.at(-1)?.length ?? 0);
  const data = [...Array(n).keys()]
    .map((client) => curve(rounds, values.map((line) => line[client]), `client ${client}`, client))
    .filter((one) => one.x.length);
  if (!data.length) return "This air does not measure it.";
  return { data, layout: { xaxis: ROUND, yaxis: { title }, curves: data.length } };
}

function histogram(counted, n, xTitle, nothing) {
  if (!counted) return nothing;
  const { edges, counts } = counted, total = counts.reduce((sum, one) => sum + one, 0) || 1;
  const width = edges[1] - edges[0];
  return {
    data: [{
      type: "bar", x: counts.map((_, place) => edges[place] + width / 2), y: counts.map((one) => one / total), width,
      marker: { color: colour(n) }, hovertemplate: "%{x}: %{y:.2%}<extra></extra>",
    }],
    layout: { xaxis: { title: xTitle }, yaxis: { ...PERCENT, tickformat: ".2~%", title: "entries" }, curves: 1, hovermode: "closest" },
  };
}

function layers(run) {
  const known = run.snapshot?.layers;
  if (!known) return "The run has not written it.";
  const names = known.map((layer) => layer.name), note = known.map((l) => `${l.entries.toLocaleString()} entries, mean AoU ${l.mean_aou}`);
  const bars = (key, name, n) => ({
    type: "bar", orientation: "h", name, y: names, x: known.map((layer) => layer[key]), text: note, textposition: "none",
    marker: { color: colour(n), pattern: { shape: n ? "/" : "", size: 5 } }, hovertemplate: "%{y}: %{x:.1%}<br>%{text}",
  });
  return {
    data: [bars("sent", "in this round", 0), bars("ever", "since round 0", 1)],
    layout: {
      barmode: "group", bargap: 0.25, hovermode: "closest", xaxis: { tickformat: ".0%", range: [0, 1.02], title: "share of the layer's entries" },
      yaxis: { autorange: "reversed", type: "category" },
    },
  };
}

function spectrum(run) {
  const seen = run.snapshot?.spectrum;
  if (!seen) return "This air has no received samples to show.";
  const n = seen.db.length, step = seen.sample_rate_hz / n / 1e6;
  const x = seen.db.map((_, bin) => (bin - n / 2) * step), least = Math.min(...seen.db) - 3;
  return {
    data: [
      { type: "scatter", mode: "lines", x: [x[0], x[n - 1]], y: [least, least], line: { width: 0 }, hoverinfo: "skip" },
      { type: "scatter", mode: "lines", x, y: seen.db, fill: "tonexty", line: { color: colour(0), width: 1.5 },
        hovertemplate: "%{x:.2f} MHz: %{y:.1f} dB<extra></extra>" },
    ],
    layout: {
      xaxis: { title: "frequency (MHz)" }, curves: 1, hovermode: "closest",
      yaxis: { title: "power (dB)", range: [least, Math.max(...seen.db) + 3] },
    },
  };
}

function energies(run) {
  const seen = run.snapshot?.energies;
  if (!seen) return "This air compares no energies, or does not tell them.";
  const most = Math.max(...seen.plus, ...seen.minus);
  const side = (name, n, wanted) => {
    const places = seen.plus.map((_, place) => place).filter((place) => wanted(seen.plus[place], seen.minus[place]));
    return {
      type: "scatter", mode: "markers", name, x: places.map((p) => seen.plus[p]), y: places.map((p) => seen.minus[p]),
      marker: { color: colour(n), size: 6, opacity: 0.75, symbol: SYMBOLS[n] },
    };
  };
  return {
    data: [
      side("decided +", 0, (plus, minus) => plus > minus), side("decided −", 1, (plus, minus) => plus <= minus),
      { type: "scatter", mode: "lines", x: [0, most], y: [0, most], line: { color: "#888", dash: "dot", width: 1 }, showlegend: false, hoverinfo: "skip" },
    ],
    layout: { xaxis: { title: "energy on the + tone", rangemode: "tozero" }, yaxis: { title: "on the − tone", rangemode: "tozero" }, hovermode: "closest" },
  };
}

/** All charts of a run, for `charts.show`. */
export function runCharts(run) {
  const round = run.snapshot ? `after round ${run.snapshot.round + 1}` : "";
  const own = Object.keys(run.curves.columns).slice(14).map((name) => [name, name.replaceAll("_", " ")]);
  const { stride } = run.curves, mean = stride > 1 ? `each point is the mean of ${stride} rounds` : "";
  const clients = run.snapshot?.n_clients > MOST_CLIENTS ? `the first ${MOST_CLIENTS} of ${run.snapshot.n_clients} clients` : "";
  return [
    { id: "accuracy", title: "Test accuracy", note: mean,
      figure: () => lines(run, [["test_accuracy", "accuracy"], ...own], { yaxis: own.length ? {} : PERCENT }, "Not tested yet.") },
    { id: "loss", title: "Loss", note: mean,
      figure: () => lines(run, [["loss", "training"], ["test_loss", "test"]], {}, "No loss yet.") },
    { id: "aou", title: "Age of update", note: mean,
      figure: () => lines(run, [["mean_aou", "mean"], ["max_aou", "oldest"]], { yaxis: { title: "rounds", rangemode: "tozero" } }, "No rounds yet.") },
    { id: "ages", title: "Ages of the entries", note: round,
      figure: () => histogram(run.snapshot?.aou, 0, "age of update (rounds)", "The run has not written it.") },
    { id: "layers", title: "Participation per layer", note: round, figure: () => layers(run) },
    { id: "votes", title: "Vote errors and ties", note: mean,
      figure: () => lines(run, [["vote_error_rate", "vote errors"], ["tie_share", "ties"]], { yaxis: { ...PERCENT, tickformat: ".1~%" } }, "This scheme does not vote.") },
    { id: "air", title: "Time on the air", note: mean,
      figure: () => lines(run, [["air_total", "in all"]], { yaxis: { title: "seconds", rangemode: "tozero" } }, "No rounds yet.") },
    { id: "snr", title: "SNR and peak power", note: mean,
      figure: () => lines(run, [["snr_db", "SNR at the server"], ["pmepr_db", "PMEPR (99 %)"]], { yaxis: { title: "dB" } }, "This air measures neither.") },
    { id: "spectrum", title: "Received spectrum", note: run.snapshot?.spectrum ? round : "", figure: () => spectrum(run) },
    { id: "energies", title: "Energies of the tones", note: run.snapshot?.energies ? round : "", figure: () => energies(run) },
    { id: "received", title: "Received values", note: round,
      figure: () => histogram(run.snapshot?.received, 2, "value that the server read for an entry", "The run has not written it.") },
    { id: "offset", title: "Arrival offset", note: clients, figure: () => clientCurves(run, "offset_samples", "samples") },
    { id: "power", title: "Received power", note: clients, figure: () => clientCurves(run, "power_db", "dB") },
    { id: "cfo", title: "Carrier frequency offset", note: clients, figure: () => clientCurves(run, "cfo_hz", "Hz") },
  ];
}
