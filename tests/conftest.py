# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every test: one thread per library, no window, no deadline on a busy machine."""

import os

from hypothesis import settings

# Before numpy and torch are imported. `make test` runs one worker per core, and a pool of threads in each of them
# makes both slower.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

# Time limits are pytest-timeout's. In CI the examples are the same in every run, so that a failure repeats.
settings.register_profile("gr-oac", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("gr-oac")
