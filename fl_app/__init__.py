# SPDX-License-Identifier: GPL-3.0-or-later
"""Train neural networks by federated learning over the air: FAIR-k, its rivals, simulated and real radios.

    import fl_app as oac

    run = oac.Experiment(model="cnn", data="letters", clients=10, rho=0.1, air=oac.Waveform(snr_db=20.0))
    for row in run.rounds(20):
        print(row.round, row.test_accuracy)

Names are imported when they are first used, so that the command line answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fl_app.air.base import Air as Air
    from fl_app.air.base import Uplink as Uplink
    from fl_app.config import ConfigError as ConfigError
    from fl_app.config import Settings as Settings
    from fl_app.config import load_settings as load_settings
    from fl_app.core.selection import Policy as Policy
    from fl_app.core.selection import make_policy as make_policy
    from fl_app.core.task import Classification as Classification
    from fl_app.core.task import CustomTask as CustomTask
    from fl_app.core.task import Regression as Regression
    from fl_app.core.task import Task as Task
    from fl_app.data.data import Data as Data
    from fl_app.experiment.experiment import Experiment as Experiment
    from fl_app.experiment.pieces import Digital as Digital
    from fl_app.experiment.pieces import Dirichlet as Dirichlet
    from fl_app.experiment.pieces import Fading as Fading
    from fl_app.experiment.pieces import Ideal as Ideal
    from fl_app.experiment.pieces import Iid as Iid
    from fl_app.experiment.pieces import LearningRate as LearningRate
    from fl_app.experiment.pieces import LocalSGD as LocalSGD
    from fl_app.experiment.pieces import Loopback as Loopback
    from fl_app.experiment.pieces import ServerAdam as ServerAdam
    from fl_app.experiment.pieces import ServerSGD as ServerSGD
    from fl_app.experiment.pieces import Shards as Shards
    from fl_app.experiment.pieces import Waveform as Waveform
    from fl_app.runs.callbacks import Callback as Callback
    from fl_app.runs.history import History as History
    from fl_app.runs.metrics import RoundFigures as RoundFigures
    from fl_app.runs.sweeps.sweep import sweep as sweep
    from oac_blocks.dsp.waveform.schemes import Scheme as Scheme
    from oac_blocks.dsp.waveform.schemes.amplitudes import Analog as Analog
    from oac_blocks.dsp.waveform.schemes.energies import Energy as Energy
    from oac_blocks.dsp.waveform.schemes.majority_vote import MajorityVote as MajorityVote
    from oac_blocks.errors import OacError as OacError

_HOMES = {
    "Air": "fl_app.air.base",
    "Analog": "oac_blocks.dsp.waveform.schemes.amplitudes",
    "Callback": "fl_app.runs.callbacks",
    "Classification": "fl_app.core.task",
    "ConfigError": "fl_app.config",
    "CustomTask": "fl_app.core.task",
    "Data": "fl_app.data.data",
    "Digital": "fl_app.experiment.pieces",
    "Dirichlet": "fl_app.experiment.pieces",
    "Energy": "oac_blocks.dsp.waveform.schemes.energies",
    "Experiment": "fl_app.experiment.experiment",
    "Fading": "fl_app.experiment.pieces",
    "History": "fl_app.runs.history",
    "Ideal": "fl_app.experiment.pieces",
    "Iid": "fl_app.experiment.pieces",
    "LearningRate": "fl_app.experiment.pieces",
    "LocalSGD": "fl_app.experiment.pieces",
    "Loopback": "fl_app.experiment.pieces",
    "MajorityVote": "oac_blocks.dsp.waveform.schemes.majority_vote",
    "OacError": "oac_blocks.errors",
    "Policy": "fl_app.core.selection",
    "Regression": "fl_app.core.task",
    "RoundFigures": "fl_app.runs.metrics",
    "Scheme": "oac_blocks.dsp.waveform.schemes",
    "ServerAdam": "fl_app.experiment.pieces",
    "ServerSGD": "fl_app.experiment.pieces",
    "Settings": "fl_app.config",
    "Shards": "fl_app.experiment.pieces",
    "Task": "fl_app.core.task",
    "Uplink": "fl_app.air.base",
    "Waveform": "fl_app.experiment.pieces",
    "load_settings": "fl_app.config",
    "make_policy": "fl_app.core.selection",
    "sweep": "fl_app.runs.sweeps.sweep",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fl_app' has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
