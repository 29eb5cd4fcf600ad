# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the tables of docs/results/paper.md, and copies its figures and CSV files into docs/results/paper/.

.venv/bin/python docs/figures/paper_results.py FOLDER reads what `fl_app reproduce NAME --scale cpu --out FOLDER` wrote.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parents[1] / "results" / "paper"
NAMES = ("fig3", "fig4", "fig5", "fig6", "fig7", "fig9", "table1")


def point_line(point: dict[str, Any]) -> str:
    """Return one line of the table of a figure: the varied values, accuracy, each seed's, mean age."""
    varied = ", ".join(
        f"{value}" if key.endswith("policy") else f"{key.rpartition('.')[2]} = {value:g}"
        for key, value in point["values"].items()
    )
    each = [100 * value for value in point["test_accuracy"]["each"]]
    spread = statistics.stdev(each) / len(each) ** 0.5 if len(each) > 1 else 0.0
    seeds = ", ".join(f"{value:.1f}" for value in each)
    age = statistics.fmean(point["mean_aou"]["each"])
    return f"| {varied} | {statistics.fmean(each):.1f} ± {spread:.1f} | {seeds} | {age:.1f} |"


def main(folder: Path) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        kept = folder / f"{name}.json"
        if not kept.exists():
            print(f"\n## {name}: not there\n")
            continue
        result = json.loads(kept.read_text())
        for suffix in ("png", "csv"):
            if (folder / f"{name}.{suffix}").exists():
                shutil.copy(folder / f"{name}.{suffix}", OUT / f"{name}.{suffix}")
        print(f"\n## {name}\n\n{result['claim']}: {result['agrees']}\n\n{result['sentence']}\n")
        for title, points in result.get("points", {}).items():
            print(f"{title}\n\n| line | accuracy % | each seed % | mean age |\n| --- | --- | --- | --- |")
            print("\n".join(point_line(point) for point in points))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
