// SPDX-License-Identifier: GPL-3.0-or-later
// The charts of a comparison: one curve for each run.

import { curve } from "./run_charts.js";

const PERCENT = { tickformat: ".0%", rangemode: "tozero" };

function chart(runs, id, title, column, xColumn, layout) {
  const figure = () => {
    const data = runs
      .map((run, n) => curve(xColumn ? run.curves.columns[xColumn] ?? [] : run.curves.x, run.curves.columns[column] ?? [], run.id, n))
      .filter((one) => one.x.length);
    return data.length ? { data, layout: { showlegend: false, hovermode: "closest", ...layout } } : "None of these runs measured it.";
  };
  return { id: `compare-${id}`, title, note: "", figure };
}

export function compareCharts(runs) {
  const round = { title: "round" }, air = { title: "seconds on the air" };
  return [
    chart(runs, "accuracy", "Test accuracy", "test_accuracy", null, { xaxis: round, yaxis: PERCENT }),
    chart(runs, "accuracy-air", "Test accuracy against air time", "test_accuracy", "air_total", { xaxis: air, yaxis: PERCENT }),
    chart(runs, "loss", "Training loss", "loss", null, { xaxis: round }),
    chart(runs, "aou", "Mean age of update", "mean_aou", null, { xaxis: round, yaxis: { title: "rounds", rangemode: "tozero" } }),
    chart(runs, "votes", "Vote errors", "vote_error_rate", null, { xaxis: round, yaxis: { ...PERCENT, tickformat: ".1~%" } }),
    chart(runs, "participation", "Entries sent since round 0", "participation", null, { xaxis: round, yaxis: PERCENT }),
  ];
}
