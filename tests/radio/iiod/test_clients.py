# SPDX-License-Identifier: GPL-3.0-or-later
"""Unmodified clients: libiio's command-line tools and GNU Radio's blocks."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from oac_blocks.radio.ad9361 import RX_FULL_SCALE
from tests.support.polling import DEADLINE_SECONDS

needs_tools = pytest.mark.skipif(shutil.which("iio_info") is None, reason="libiio-utils is not installed")


def run(*command, **more):
    return subprocess.run(command, capture_output=True, timeout=DEADLINE_SECONDS, **more)


@needs_tools
def test_iio_info_lists_all_and_complains_of_nothing(plutos):
    done = run("iio_info", "-u", plutos(1).uris[0], text=True)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "IIO context has 5 devices" in done.stdout
    for device in ("ad9361-phy", "cf-ad9361-lpc (buffer capable)", "cf-ad9361-dds-core-lpc (buffer capable)"):
        assert device in done.stdout
    # These fail on a real one as well.
    failing = {line.split("ERROR")[0].split(":")[-1].strip() for line in done.stdout.splitlines() if "ERROR" in line}
    assert failing == {"fastlock_recall", "dcxo_tune_coarse", "dcxo_tune_fine", "multichip_sync", "samples_pps"}


@needs_tools
def test_iio_attr_reads_and_writes(plutos):
    uri = plutos(1).uris[0]

    def attr(*arguments):
        return run("iio_attr", "-u", uri, *arguments, text=True)

    assert "-10.000000 dB" in attr("-c", "-o", "ad9361-phy", "voltage0", "hardwaregain").stdout
    attr("-c", "-o", "ad9361-phy", "voltage0", "hardwaregain", "-20.5")
    assert "-20.500000 dB" in attr("-c", "-o", "ad9361-phy", "voltage0", "hardwaregain").stdout
    assert "fdd" in attr("-d", "ad9361-phy", "ensm_mode").stdout
    attr("-D", "ad9361-phy", "loopback", "1")
    assert "1" in attr("-D", "ad9361-phy", "loopback").stdout
    assert attr("-d", "ad9361-phy", "no_such_attribute").returncode != 0


@needs_tools
def test_iio_readdev_hears_what_iio_writedev_sends(plutos):
    """One sends a tone from a file, over and over; the other one's file shows it."""
    served = plutos(2)
    for uri in served.uris:
        for channel, attribute, value in (
            ("altvoltage0", "frequency", "2400000000"),
            ("altvoltage1", "frequency", "2400000000"),
        ):
            assert run("iio_attr", "-u", uri, "-c", "-o", "ad9361-phy", channel, attribute, value).returncode == 0
        assert run(
            "iio_attr", "-u", uri, "-c", "-i", "ad9361-phy", "voltage0", "sampling_frequency", "3000000"
        ).returncode == 0  # fmt: skip
    for attribute, value in (("gain_control_mode", "manual"), ("hardwaregain", "50")):
        run("iio_attr", "-u", served.uris[1], "-c", "-i", "ad9361-phy", "voltage0", attribute, value)
    n = 4096
    tone = 16 * 500 * np.exp(2j * np.pi * 64 * np.arange(n) / n)
    words = np.stack((tone.real, tone.imag), axis=1).astype("<i2").tobytes()
    writer = subprocess.Popen(
        ["iio_writedev", "-u", served.uris[0], "-b", str(n), "-c", "cf-ad9361-dds-core-lpc"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        writer.stdin.write(words)
        writer.stdin.flush()
        for _ in range(20):
            read = run("iio_readdev", "-u", served.uris[1], "-b", str(n), "-s", str(n), "cf-ad9361-lpc")
            heard = np.frombuffer(read.stdout, "<i2").reshape(-1, 2) @ [1, 1j]
            assert len(heard) == n
            spectrum = np.abs(np.fft.fft(heard)) / n
            if spectrum[64] > 400:  # the writer may not have begun yet
                break
        assert np.argmax(spectrum) == 64
        assert spectrum[64] == pytest.approx(500, abs=2)
    finally:
        writer.kill()
        writer.wait()


FLOWGRAPH = """
import sys, time
import numpy as np
from gnuradio import blocks, gr, iio

sender, receiver = sys.argv[1:3]
flow = gr.top_block()
n = 4096
tone = (500 / 2048 * np.exp(2j * np.pi * 64 * np.arange(n) / n)).astype(np.complex64)
source = blocks.vector_source_c(tone.tolist(), repeat=True)
sink = iio.fmcomms2_sink_fc32(sender, [True, True], 16384, False)
sink.set_len_tag_key("")
sink.set_bandwidth(2_000_000)
sink.set_frequency(2_400_000_000)
sink.set_samplerate(1_000_000)
sink.set_attenuation(0, 10.0)
sink.set_filter_params("Auto", "", 0, 0)
ears = iio.fmcomms2_source_fc32(receiver, [True, True], 16384)
ears.set_len_tag_key("")
ears.set_frequency(2_400_000_000)
ears.set_samplerate(1_000_000)
for _ in range(2):  # it writes the mode before
    ears.set_gain_mode(0, "manual")
ears.set_gain(0, 50)
ears.set_quadrature(True)
ears.set_rfdc(True)
ears.set_bbdc(True)
ears.set_filter_params("Auto", "", 0, 0)
heard = blocks.vector_sink_c()
head = blocks.head(gr.sizeof_gr_complex, 1_500_000)
flow.connect(source, sink)
flow.connect(ears, head, heard)
flow.start()
deadline = time.monotonic() + 200
while len(heard.data()) < 1_500_000 and time.monotonic() < deadline:
    time.sleep(0.1)
flow.stop()
flow.wait()
rows = np.array(heard.data())[-1_000_000 // n * n :].reshape(-1, n)
spectrum = np.median(np.abs(np.fft.fft(rows, axis=1)) / n, axis=0)  # a busy machine may have left a gap in some
print("\\nheard", int(np.argmax(spectrum)), round(float(spectrum.max()) * 2048))
"""


def test_gnuradios_blocks_send_and_hear(plutos):
    pytest.importorskip("gnuradio.iio")
    served = plutos(2)
    done = run(sys.executable, "-c", FLOWGRAPH, *served.uris, text=True)
    assert done.returncode == 0, done.stderr
    bin_, level = done.stdout.split("heard")[1].split()[:2]  # "U" in front of it is a gap, on a busy machine
    assert int(bin_) == 64
    assert int(level) == pytest.approx(500, abs=2)
    assert RX_FULL_SCALE == 2048  # as in the flowgraph


LOCK_STEP = """
import hashlib, sys, time
import numpy as np
from gnuradio import blocks, gr, iio

n, wanted = 4096, 200_000
flow = gr.top_block()
ears, heads = [], []
for number, uri in enumerate(sys.argv[1:3]):
    sink = iio.fmcomms2_sink_fc32(uri, [True, True], n, False)
    sink.set_len_tag_key("")
    sink.set_bandwidth(2_000_000)
    sink.set_frequency(2_400_000_000)
    sink.set_samplerate(1_000_000)
    sink.set_attenuation(0, 10.0)
    sink.set_filter_params("Auto", "", 0, 0)
    source = iio.fmcomms2_source_fc32(uri, [True, True], n)
    source.set_len_tag_key("")
    source.set_frequency(2_400_000_000)
    source.set_samplerate(1_000_000)
    for _ in range(2):
        source.set_gain_mode(0, "manual")
    source.set_gain(0, 50)
    source.set_filter_params("Auto", "", 0, 0)
    rng = np.random.default_rng(number)
    parts = rng.integers(-500, 500, (1 << 18, 2)) / 2048
    flow.connect(blocks.vector_source_c((parts @ [1, 1j]).tolist(), repeat=True), sink)
    ears.append(blocks.vector_sink_c())
    flow.connect(source, ears[-1])
flow.start()
deadline = time.monotonic() + 200
while min(len(one.data()) for one in ears) < wanted and time.monotonic() < deadline:
    time.sleep(0.05)
time.sleep(1.2)  # its source does not end within a second of its start
flow.stop()
flow.wait()
for number, one in enumerate(ears):
    heard = np.array(one.data()[:wanted])
    other = np.random.default_rng(1 - number).integers(-500, 500, (1 << 18, 2)) @ [1, 1j]
    print("\\nheard", len(heard), int(np.count_nonzero(heard * 2048 != other[:wanted])))
"""


def test_gnuradio_in_lock_step_loses_nothing(plutos):
    """Two radios at once, each sample where it belongs, however slow the machine is."""
    pytest.importorskip("gnuradio.iio")
    done = run(sys.executable, "-c", LOCK_STEP, *plutos(2, lock_step=True).uris, text=True)
    assert done.returncode == 0, done.stderr
    results = [part.split()[:2] for part in done.stdout.split("heard")[1:]]
    assert results == [["200000", "0"], ["200000", "0"]]
    # Lost samples are letters by themselves; that a stream was ended while it waited for a buffer is a warning.
    marks = "".join(line for line in done.stdout.splitlines() if ":warning:" not in line)
    assert "U" not in marks
    assert "O" not in marks
