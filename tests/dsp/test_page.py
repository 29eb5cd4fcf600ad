# SPDX-License-Identifier: GPL-3.0-or-later
"""The example of docs/dsp.md runs, prints what the page says, and what it measures is the closed form."""

import re
import subprocess
import sys

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "dsp.md"
NUMBERS = r"measured ([\d.]+) \+- ([\d.]+), closed form ([\d.]+)"


def test_the_example_prints_the_closed_form():
    text = PAGE.read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stderr
    measured, standard_error, closed_form = map(float, re.search(NUMBERS, ran.stdout).groups())
    assert abs(measured - closed_form) < 3 * standard_error + 0.001  # printed with three digits
    on_page = re.search(NUMBERS, text.partition("It prints")[2]).groups()
    assert [float(number) for number in on_page] == [measured, standard_error, closed_form]
