# SPDX-License-Identifier: GPL-3.0-or-later
"""Sweep the share of the entries that FAIR-k selects by magnitude, with two seeds, and draw one figure."""

import fl_app as oac

# The workers of a sweep import this script, so its work stands behind this line.
if __name__ == "__main__":
    settings = oac.load_settings("table", ["run.rounds=10", "clients.n=4", "air.name=fading"])
    swept = oac.sweep(settings, {"selection.k_m_ratio": [0.0, 0.5, 1.0]}, seeds=[1, 2], folder="runs/k-m-ratio")
    for point in swept.points:
        r2 = point["test_r2"]
        print(f"k_M/k = {point['values']['selection.k_m_ratio']}: R squared {r2['mean']:.3f} +- {r2['std']:.3f}")
    print(f"{swept.folder / 'sweep.png'}, {swept.folder / 'sweep.html'}")
