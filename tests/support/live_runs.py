# SPDX-License-Identifier: GPL-3.0-or-later
"""Write run folders for the live page without training: the real writers, with made-up figures."""

import json

from fl_app.processes.identity import identity
from fl_app.runs.checkpoints import write_atomically
from fl_app.runs.live.client_history import ClientHistory
from fl_app.runs.live.log_file import LogFile
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.run_folder import RunFolder


def row_of(t, **changes):
    """Return the figures of round t; the model is tested in every second round."""
    values = {
        "k": 20, "loss": 3 / (t + 1), "test_accuracy": None if t % 2 else 1 - 1 / (t + 2), "test_loss": None,
        "mean_aou": 4.0, "max_aou": t, "participation": 0.5, "dropped_clients": 0, "vote_error_rate": 0.1,
        "votes_compared": 10, "symbols": 9, "air_seconds": 0.5, "snr_db": 20.0, "pmepr_db": 9.0, "train_seconds": 0.1,
        "air_cpu_seconds": 0.1, "seconds": 0.2, "tie_share": 0.25,
    }  # fmt: skip
    return RoundFigures(round=t, **(values | changes))


class WrittenRun:
    """Write a run's folder as a training does, round by round, from this process."""

    def __init__(self, path, settings, clients=2):
        self.folder, self.done = RunFolder.create(settings, path), 0
        self._clients = clients
        self._begin()

    def _begin(self):
        self.folder.start_metrics([row_of(t) for t in range(self.done)])
        self._history, self._log = ClientHistory(self.folder.clients, self.done), LogFile(self.folder.log)

    def play(self, rounds):
        for t in range(self.done, self.done + rounds):
            self.folder.append(row_of(t))
            about = {
                "state": "heard",
                "radio": "tracking",
                "power_db": -1.0,
                "cfo_hz": 3.0,
                "loss": 1.0,
                "seconds": 0.1,
            }
            clients = [{"client": n, "offset_samples": 0.01 * t + n, **about} for n in range(self._clients)]
            self._history.add(t, clients)
            shown = {
                "round": t, "process": identity(), "n_clients": self._clients, "scheme": "onebit", "clients": clients,
                "aou": {"edges": [0, 1, 2], "counts": [3, 1]},
                "layers": [{"name": "0 Linear", "entries": 4, "sent": 0.5, "ever": 1.0, "mean_aou": 0.5}],
                "received": {"edges": [-1.0, 0.0, 1.0], "counts": [2, 2]},
                "spectrum": {"sample_rate_hz": 2e6, "db": [-30.0, -10.0, -10.0, -30.0]},
                "energies": {"plus": [1.0, 2.0], "minus": [2.0, 0.5]},
            }  # fmt: skip
            write_atomically(self.folder.snapshot, json.dumps(shown).encode(), durable=False)
        self.done += rounds
        self._log.say(f"round {self.done}")

    def kill(self):
        """Leave what a killed run leaves: half a line."""
        with self.folder.metrics.open("a") as stream:
            stream.write(row_of(self.done).line()[:40])
        self._log.close()

    def resume(self, rounds_done):
        """Go on from a checkpoint that covers so many rounds, as `fl_app resume` does."""
        self.done = rounds_done
        self._begin()

    def finish(self):
        self.folder.write_result({"rounds": self.done})
        self.close()

    def close(self):
        self._log.close()
