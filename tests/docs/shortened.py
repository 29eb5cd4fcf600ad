# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests change in a command of the documentation: shorter runs, virtual radios in place of real ones.

Every command of every page is matched by one rule, the first that fits. A command that no rule fits fails the test, so
that nothing is left out in silence. Nothing else is changed: options, names and order are the page's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import ROOT, Block, Command

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
SHORT_DATA = (
    "--set run.workers=0 --set data.limit=300 --set data.test_limit=60 --set clients.H=1 --set clients.batch_size=10"
)
SHORT_RUN = f"--set run.rounds=2 {SHORT_DATA}"
LOCK_STEP = "--clock lock-step"  # virtual radios and programs wait for each other: no machine is too slow
REHEARSAL = f"{LOCK_STEP} --rx-gain 50 --tx-gain -10"  # the gains that docs/radios.md names for virtual Plutos
# A page's radios become the uris that `oac-virtual-pluto` has printed; the runner fills them in.
RADIOS = tuple((rf"ip:192\.168\.{2 + radio}\.1\b", f"{{uri{radio}}}") for radio in range(3))
PLACES = (
    *RADIOS,
    (r"--frequency HZ\b", "--frequency 2.4e9"),
    (r"tcp://192\.168\.1\.2:", "tcp://127.0.0.1:"),
    (r"runs/20\d{6}-\S+", "{newest_run}"),
)
# A test installs nothing: `-o setup` leaves the set-up out, which would renew .venv under the tests that run, and in a
# checkout whose .venv is a link to another's, remove the link. tests/test_makefile.py runs the set-up itself.
IN_THE_CHECKOUT = (r"^make\b", f"make -o setup -C '{ROOT}'")
SETTINGS_ALONE = ((r"^fl_app train", "fl_app show-config"), (r" --out \S+", ""))


@dataclass(frozen=True)
class Rule:
    """How a command that matches ``pattern``, on ``page`` if that is named, is run.

    ``kind`` is "run" (wait for it, check its exit status), "background" (go on, check its exit status when the block
    ends) or "service" (go on once its output shows ``ready``; it is ended with the page, or by the next of its kind).
    ``replace`` holds pairs of a regular expression and a text. ``needs`` is a path without which the command is left
    out. ``service`` is a command that serves for this one alone.
    """

    pattern: str
    append: str = ""
    page: str = ""
    kind: str = "run"
    replace: tuple[tuple[str, str], ...] = ()
    ready: str = ""
    exit_status: int = 0
    needs: Path | None = None
    service: str = ""


RULES = (
    # Targets that take minutes or open a window: make must know them; other tests and CI run what is behind them.
    Rule(r"make (setup|test|check|docs|bench|companion|soak)\b", "-n", replace=(IN_THE_CHECKOUT,)),
    Rule(r"make help", replace=(IN_THE_CHECKOUT,)),
    Rule(r"make train", f"ARGS='{SHORT_RUN} --out {{folder}}/by-make'", "README.md", replace=(IN_THE_CHECKOUT,)),
    Rule(r"make train", "-n", replace=(IN_THE_CHECKOUT,)),  # the README's runs
    Rule(r"oac-blocks companion", "--help"),  # it opens a window; tests/blocks/companion/qa_companion.py runs it
    Rule(r"fl_app train --set run\.ruonds", exit_status=2),
    Rule(r"fl_app train .*\bprototype", SHORT_RUN + " --set data.name=letters"),  # EMNIST is a download
    Rule(r"fl_app train bench\.toml", SHORT_RUN),
    # docs/cluster.md trains with Ray; the tutorial joins a cluster that its reader has started.
    Rule(r"fl_app train", "--help", "docs/tutorials/ray.md"),
    # Each tutorial trains twice; its other commands differ in a setting, which must be a valid one.
    Rule(r"fl_app train .*air\.snr_db=0", page="docs/tutorials/first-run.md", replace=SETTINGS_ALONE),
    Rule(r"fl_app train .*small_net$", page="docs/tutorials/own-parts.md", replace=SETTINGS_ALONE),
    Rule(  # there is no cluster here, CIFAR-10 is a download, and ResNet-18 at full size takes minutes
        r"fl_app train cifar10-noniid --engine ray",
        f"{SHORT_RUN} --set data.name=letters --set model.args.width=2 --set clients.n=2",
        replace=((r"--engine ray", "--engine local"),),
    ),
    Rule(r"fl_app (train|up)\b", SHORT_RUN),
    Rule(
        r"fl_app compare .*schemes-",
        f"{SHORT_RUN} --set clients.n=2 --seeds 1 --policies fair-k",
        needs=FASHION_MNIST,
    ),
    Rule(r"fl_app compare .*(fashion|compare-)", f"{SHORT_RUN} --seeds 1 --policies fair-k", needs=FASHION_MNIST),
    Rule(  # CIFAR-10 and EMNIST are downloads
        r"fl_app compare (cifar10-small|prototype)", f"{SHORT_RUN} --set data.name=letters --seeds 1 --policies fair-k"
    ),
    Rule(r"fl_app compare", f"{SHORT_RUN} --seeds 1 --policies fair-k,top-k"),
    Rule(
        r"fl_app sweep",
        f"{SHORT_RUN} --seeds 1",
        replace=((r"=0,0\.25,0\.5,0\.75,1", "=0,1"), (r"snr_db=0,10,20", "snr_db=0,20")),
    ),
    # The rounds are the page's own. The radios stream while clients train: short steps spare all processes.
    Rule(r"fl_app server .*--radio", f"{SHORT_DATA} --set selection.rho=0.05"),
    Rule(r"fl_app server", SHORT_RUN, kind="background"),
    Rule(r"fl_app client", "--patience-seconds 300", kind="background"),
    Rule(r"fl_app dashboard", "--port 0", kind="service", ready=r"http://"),
    Rule(r"fl_app radio", kind="service", ready=r"^ready$"),
    Rule(r"fl_app resume .*--rounds", replace=((r"--rounds \d+", "--rounds 3"),)),
    Rule(r"fl_app (show-config|keys|list|report|resume)\b"),
    Rule(r"fl_app theory (aou|noise)\b"),
    Rule(r"fl_app theory regime", f"{SHORT_DATA} --rounds 1"),
    Rule(r"fl_app theory exchange", f"{SHORT_DATA}", replace=((r"rounds=\d+", "rounds=8"),)),
    Rule(r"fl_app theory advise", SHORT_DATA, replace=((r"--trial \d+", "--trial 4"),)),
    Rule(r"fl_app theory (lipschitz|bound)\b", f"{SHORT_DATA} --rounds 1 --samples 20"),
    Rule(r"fl_app reproduce"),
    # The Python example behind this one opens one buffer of each radio, which is for the wall clock.
    Rule(r"oac-virtual-pluto (--radios 2|.*--clock lock-step)", kind="service", ready=r"^ready$"),
    Rule(r"oac-virtual-pluto", LOCK_STEP, kind="service", ready=r"^ready$"),
    Rule(
        r"oac-calibrate loopback-test",
        "--rate 1e6 --seconds 0.2",
        replace=((r"ip:\S+", "{own_uri}"),),
        service=f"oac-virtual-pluto --base-port 40431 {LOCK_STEP}",
    ),
    Rule(r"oac-calibrate track", f"{REHEARSAL} --rounds 8"),
    Rule(r"oac-calibrate (measure|align)\b", REHEARSAL),
    Rule(r"oac-calibrate simulate", "--rounds 30"),
    Rule(r"oac-calibrate (probe|report)\b"),
    Rule(r"oac-blocks loopback", "--rounds 3"),
    Rule(r"oac-blocks (path|flows|replay)\b"),
    # They change files in the reader's home.
    Rule(r"oac-blocks (register|unregister)\b", replace=((r"^", "HOME='{folder}' "),)),
)
# What the tests change in a file that a page shows.
IN_FILES = (
    *RADIOS,
    (r"frequency_hz = 0\.0", "frequency_hz = 2.4e9"),
    (r"rx_gain_db = \S+", "rx_gain_db = 50.0"),
    (r"tx_gain_db = \S+(?![^\n]|\nclock)", 'tx_gain_db = -10.0\nclock = "lock-step"'),
)
# Pages whose examples in Python build on one another.
ONE_PROGRAM = ("docs/python-api.md",)
# What stands before an example in Python: names that the page leaves to the reader.
BEFORE_PROGRAMS = {
    "pieces_of_a_stream": """
import numpy as np
from oac_blocks.dsp.preamble import trigger
pieces_of_a_stream = [np.concatenate([np.zeros(1000), trigger(), np.zeros(60_000)]).astype(np.complex64)]
""",
    "run_my_program": "run_my_program = print\n",
    "answer": """
def answer(samples, left=[3]):
    left[0] -= 1
    if not left[0]:
        raise SystemExit(0)
    return samples
""",
}
SKETCH = re.compile(r"^ +\.\.\.", re.MULTILINE)  # a program with a gap for the reader's own code; it is compiled only


def program(block: Block) -> str:
    """Return an example in Python as the tests run it; empty for a sketch."""
    names = set(re.findall(r"\b\w+\b", block.text))
    defined = set(re.findall(r"^(?:def )?(\w+)(?= =|\()", block.text, re.MULTILINE))
    before = [code for name, code in BEFORE_PROGRAMS.items() if name in names - defined]
    return "" if SKETCH.search(block.text) else "".join(before) + block.text + "\n"


def rule_for(command: Command) -> Rule | None:
    """Return the first rule that fits a command."""
    return next(
        (rule for rule in RULES if re.match(rule.pattern, command.text) and rule.page in ("", command.page)), None
    )


def shortened(command: Command, rule: Rule) -> str:
    """Return the command as the tests run it; ``{name}`` in it is for the runner to fill in."""
    text = command.text
    for pattern, new in (*rule.replace, *PLACES):
        text = re.sub(pattern, lambda _match, new=new: new, text)
    # Options go before a pipe or a redirection.
    at = min((found for mark in (" | ", " > ") if (found := text.find(mark)) > 0), default=len(text))
    return f"{text[:at]} {rule.append}".rstrip() + text[at:]


def file_text(block: Block) -> str:
    """Return the text of a file that a page shows, as the tests write it."""
    text = block.text
    for pattern, new in IN_FILES:
        text = re.sub(pattern, lambda _match, new=new: new, text)
    return text + "\n"
