# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of a log: legends name what is drawn, and nothing else."""

import numpy as np
import pytest

from calibration.log import COLUMNS, LogWriter, read_log
from calibration.report import figure


def log_of(path, truth, heard, rounds=12):
    """A log of two clients: of radios, where no truth is known, or of a simulation."""
    rng = np.random.default_rng(1)
    with path.open("w", encoding="utf-8") as file:
        writer = LogWriter(file, 2, 1e6, {})
        for number in range(rounds):
            columns = {name: rng.normal(0, 0.1, 2) for name in COLUMNS}
            columns["sigma_samples"] = columns["doubt_samples"] = np.full(2, 0.1)
            if not truth:
                columns["residual_samples"] = np.full(2, np.nan)
            for client in range(2):
                if client not in heard:
                    for name in COLUMNS:
                        columns[name][client] = np.nan
            writer.round(number, "payload", 1e5 * number, ["tracking", "tracking"], columns)
    return read_log(path)


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("heard", [(0, 1), (0,), ()])
def test_a_legend_names_only_what_is_drawn(tmp_path, truth, heard):
    drawn = figure(log_of(tmp_path / "log.jsonl", truth, heard))
    named = []
    for axes in drawn.axes:
        for line in axes.get_lines():
            assert np.isfinite(np.asarray(line.get_ydata(), float)).any(), line.get_label()
        if axes.get_legend() is not None:
            named += [text.get_text() for text in axes.get_legend().get_texts()]
    assert [name for name in named if name.startswith("client")] == [f"client {client}" for client in heard]
    if heard:
        assert ("true residual, RMS" in named) == truth
        assert ("measured offset, RMS" in named) != truth
