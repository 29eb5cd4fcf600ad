# SPDX-License-Identifier: GPL-3.0-or-later
"""ResNet-18 whole, as in round 0, passes the waveform in little memory."""

import json
import subprocess
import sys

import pytest

SEND_RESNET_18 = """
import json, resource, sys
import numpy as np
from fl_app.air import AirSettings, make_air
mode, d = sys.argv[1], 11_173_962
rng = np.random.default_rng(0)
payload = rng.standard_normal((2, d), np.float32)
payload = np.sign(payload).astype(np.int8) if mode == "onebit" else payload
uplink = make_air(AirSettings(mode=mode, snr_db=20.0, clock_ppm=20.0), 2, 0).uplink(payload, np.arange(2), 0)
peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([peak_kib / 2**20, bool(np.isfinite(uplink.received).all()), len(uplink.received)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["onebit", "analog"])
def test_resnet_18_passes_within_a_gibibyte(mode):
    run = subprocess.run([sys.executable, "-c", SEND_RESNET_18, mode], capture_output=True, text=True, check=True)
    peak_gib, finite, entries = json.loads(run.stdout)
    assert (finite, entries) == (True, 11_173_962)
    assert peak_gib < 1.0
