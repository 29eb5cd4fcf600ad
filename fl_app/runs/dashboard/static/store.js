// SPDX-License-Identifier: GPL-3.0-or-later
// Holds what the server has told of the runs that this page shows. Its size does not grow with the rounds.

export const runs = new Map(); // name -> what is known of a run

/** Takes one event of the server: what is new in a run. */
export function take(news) {
  const run = runs.get(news.id) ?? { id: news.id, curves: emptyCurves(), history: { rounds: [] } };
  for (const part of ["settings", "snapshot", "result", "log", "status"]) {
    if (part in news) run[part] = news[part];
  }
  if (news.curves) run.curves = merged(run.curves, news.curves);
  if (news.history) run.history = appended(run.history, news.history);
  runs.set(news.id, run);
  return run;
}

/** Forgets the runs that are not shown any more. */
export function keepOnly(names) {
  for (const name of runs.keys()) if (!names.includes(name)) runs.delete(name);
}

function emptyCurves() {
  return { x: [], columns: {}, rounds: 0, stride: 1 };
}

/** Replaces the buckets from `first` on. */
function merged(old, fresh) {
  const columns = {};
  for (const [name, values] of Object.entries(fresh.columns)) {
    const before = fresh.first ? old.columns[name] ?? Array(fresh.first).fill(null) : [];
    columns[name] = before.slice(0, fresh.first).concat(values);
  }
  return { ...fresh, x: old.x.slice(0, fresh.first).concat(fresh.x), columns };
}

function appended(old, fresh) {
  const whole = {};
  for (const [name, values] of Object.entries(fresh)) {
    if (name !== "first") whole[name] = (fresh.first ? old[name] : []).concat(values);
  }
  return whole;
}
