# SPDX-License-Identifier: GPL-3.0-or-later
"""Offer an experiment as one object: what is trained, on which data, by whom, selected how, through which air."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, Self

from torch import nn

from fl_app.config import Settings, check, load_settings, with_own_keys
from fl_app.core.server import Server
from fl_app.core.task import Task
from fl_app.experiment import describe
from fl_app.experiment.pieces import Dirichlet, LocalSGD, ServerAdam, ServerSGD
from fl_app.runs.callbacks import Callback, CallbackList
from fl_app.runs.history import History
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.prepare import Objects
from fl_app.runs.run import Run
from fl_app.runs.run_folder import RunError, RunFolder
from fl_app.runs.run_hash import differences
from fl_app.runs.train import result_of, train_run
from oac_blocks.dsp.waveform.schemes import Scheme


class Experiment:
    """Describe an experiment, and play its rounds.

    Parameters
    ----------
    model
        A function or class that builds a ``torch.nn.Module``, a module to copy, a name (``"cnn"``), or an import
        string. A factory gets those of ``classes``, ``in_channels``, ``image_size``, ``input_shape`` (and, by task,
        others) that it has parameters for.
    data
        A `Data`, a pair (train, test) that `Data` takes, a name (``"letters"``), or an import string.
    partition
        How the training samples are divided: `Dirichlet`, `Iid`, `Shards`, or a list of sample indices per client.
    clients : int
        Number of clients, N.
    local : LocalSGD
        What each client does in a round.
    fraction : float
        Share of the clients that take part in a round.
    weighting : str
        "equal", or "size": a client counts by its number of samples, which needs a scheme that carries magnitudes.
    server : ServerSGD, ServerAdam or float, optional
        The server's step, or its learning rate. By default its rate is that of the clients, as in the paper.
    policy
        A name (``"fair-k"``), an import string, an object with ``next(g, age)`` that returns indices, or a class or
        function that makes one. It gets those of ``d``, ``k``, ``k_m``, ``r`` and ``rng`` that it has parameters for.
    rho : float, optional
        Share of the d entries sent in a round, 0.1 by default.
    k : int, optional
        Number of entries sent in a round, in place of `rho`.
    k_m_ratio : float, optional
        k_M/k of fair-k and top-rand, 0.75 by default.
    r_ratio : float, optional
        r/k of age-top-k, 1.5 by default.
    air
        A name (``"ideal"``, ``"fading"``, ``"waveform"``, ``"gnuradio"``), settings (`Waveform`, `Fading`, ...), an
        import string, an object with ``uplink(payload, clients, t)``, or a class or function that makes one.
    scheme : optional
        How entries become a waveform, where the air is given by a name: ``"fsk-mv"`` (votes), ``"analog"``, an import
        string, or a `Scheme`.
    task : str or Task, optional
        What is learned; by default what the targets suggest.
    seed : int
        Everything random follows from it.
    workers : int
        Processes that train clients; 0 trains them in this process. The results are the same.
    device : str
        Where torch computes: ``"cpu"``, ``"cuda"``, ``"cuda:1"``.
    eval_every : int
        Rounds between two tests of the model.
    callbacks
        Objects with ``on_round(run, row)`` or ``on_evaluate(run, row)``, or functions of (run, row).
    model_args, data_args, policy_args, air_args : mapping, optional
        Arguments of parts that are given by name or import string.
    settings
        Further settings by section, as a config has them: ``settings={"run": {"threads": 2}}``.

    Examples
    --------
    >>> from torch import nn
    >>> x = np.random.default_rng(1).normal(size=(100, 4))
    >>> y = (x.sum(axis=1) > 0).astype(int)
    >>> run = oac.Experiment(
    ...     model=lambda: nn.Linear(4, 2), data=oac.Data((x[:80], y[:80]), (x[80:], y[80:])),
    ...     clients=2, rho=0.2, air=oac.Waveform(snr_db=20), seed=1,
    ... )
    >>> for row in run.rounds(3):
    ...     print(row.round, row.k, row.max_aou)
    0 10 0
    1 2 1
    2 2 2
    >>> run.d, run.server.age.max(), len(run.history)
    (10, 2, 3)
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        *,
        partition: Any = None,
        clients: int = 10,
        local: LocalSGD | None = None,
        fraction: float = 1.0,
        weighting: str = "equal",
        server: ServerSGD | ServerAdam | float | None = None,
        policy: Any = "fair-k",
        rho: float | None = None,
        k: int | None = None,
        k_m_ratio: float | None = None,
        r_ratio: float | None = None,
        air: Any = "waveform",
        scheme: str | Scheme | type[Scheme] | None = None,
        task: str | Task | None = None,
        seed: int = 1,
        workers: int = 0,
        device: str = "cpu",
        eval_every: int = 1,
        callbacks: Iterable[Callback | Callable[[Any, RoundFigures], None]] = (),
        model_args: Mapping[str, Any] | None = None,
        data_args: Mapping[str, Any] | None = None,
        policy_args: Mapping[str, Any] | None = None,
        air_args: Mapping[str, Any] | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        local = LocalSGD() if local is None else local
        if server is None or isinstance(server, int | float | Real):
            server = ServerSGD(lr=local.lr if server is None else float(server))
        model_section, model_object = describe.describe_model(model, model_args)
        data_section, data_object = describe.describe_data(data, data_args)
        split, parts = describe.describe_partition(Dirichlet() if partition is None else partition)
        selection, policy_object = describe.describe_selection(
            policy, policy_args, rho=rho, k=k, k_m_ratio=k_m_ratio, r_ratio=r_ratio
        )
        air_section, air_object = describe.describe_air(air, air_args, scheme)
        task_section, task_object = describe.describe_task(task, local)
        tree: dict[str, dict[str, Any]] = {
            "run": {"seed": seed, "workers": workers, "device": device, "eval_every": eval_every},
            "data": {**data_section, **split},
            "model": model_section,
            "task": task_section,
            "clients": {"n": clients, "fraction": float(fraction), "weighting": weighting, **local.section()},
            "server": server.section(),
            "selection": selection,
            "air": air_section,
        }
        for section, values in (settings or {}).items():
            tree.setdefault(section, {}).update(with_own_keys(section, values))
        objects = Objects(model_object, data_object, parts, task_object, policy_object, air_object)
        self._begin(check(tree, "Experiment"), objects, callbacks)

    def _begin(self, settings: Settings, objects: Objects, callbacks: Iterable[Any]) -> None:
        self.settings, self._objects = settings, objects
        self._callbacks = CallbackList(callbacks)
        self._run: Run | None = None

    @classmethod
    def from_settings(cls, settings: Settings, callbacks: Iterable[Any] = ()) -> Self:
        """Make the experiment that settings describe, as ``fl_app train`` does."""
        made = cls.__new__(cls)
        made._begin(settings, Objects(), callbacks)
        return made

    @classmethod
    def from_config(
        cls, config: str | PathLike[str] | None = None, changes: Sequence[str] = (), callbacks: Iterable[Any] = ()
    ) -> Self:
        """Make the experiment of a TOML file.

        Parameters
        ----------
        config
            A path, or the name of a config that comes with gr-oac; None is the quickstart.
        changes
            Changed settings, ``"section.key=value"``, as ``--set`` takes them.
        callbacks
            As in the constructor.

        Examples
        --------
        >>> oac.Experiment.from_config("quickstart", ["clients.n=4"]).settings.clients.n
        4
        """
        named = None if config is None else str(config)
        return cls.from_settings(load_settings(named, changes), callbacks)

    @property
    def run(self) -> Run:
        """Return the run in memory; its data and model are made at the first use."""
        if self._run is None:
            self._run = Run(self.settings, self._objects, callbacks=self._callbacks)
        return self._run

    @property
    def server(self) -> Server:
        """Return the server's state: ``w``, ``g``, ``age``, ``selected``."""
        return self.run.server

    @property
    def model(self) -> nn.Module:
        """Return the model with the server's weights."""
        return self.run.model

    @property
    def history(self) -> History:
        """Return the figures of all rounds so far as a table."""
        return self.run.history

    @property
    def d(self) -> int:
        """Return the number of the model's parameters."""
        return self.run.server.d

    def rounds(self, count: int) -> Iterator[RoundFigures]:
        """Play rounds, and yield the figures of each as soon as it is over.

        The caller may look into the experiment between two rounds, and stop when it likes; a later call goes on.

        Parameters
        ----------
        count
            Number of further rounds.
        """
        if count < 0:
            raise ValueError(f"count must be 0 or more, not {count}")
        yield from self.run.rounds(count)

    def train(
        self,
        rounds: int | None = None,
        folder: str | PathLike[str] | None = None,
        *,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> dict[str, Any]:
        """Train until this number of rounds has been played in all, and return the result.

        Parameters
        ----------
        rounds
            Number of rounds in all, those that were played before included. By default as the settings say.
        folder
            Where config, figures, checkpoints and the report are kept. A folder that holds this experiment already goes
            on from its last checkpoint, bit for bit. By default nothing is written.
        should_stop
            Asked after each round; True ends the training there.

        Returns
        -------
        dict
            What ``fl_app train --json`` prints.

        Raises
        ------
        RunError
            If the folder holds another experiment, or if `should_stop` ended the training.
        """
        if rounds is not None:
            self._plan(rounds)
        if folder is None:
            return self._train_in_memory(should_stop)
        place = self._folder(Path(folder))
        result = train_run(self.run, place, should_stop=should_stop)
        if result is None:
            raise RunError(f"stopped after round {len(self.history)}; to go on, train in {place.path} again")
        from fl_app.runs.report import write_report

        with place.writing("write the report"):
            write_report(place)
        return result

    def play(
        self,
        folder: RunFolder,
        on_round: Callable[[RoundFigures], None],
        should_stop: Callable[[], bool],
        before_keeping: Callable[[], None],
    ) -> dict[str, Any] | None:
        """Train in a folder that was planned or opened, as the command line does; None if it was stopped."""
        result = folder.read_result()
        if result is not None and result["rounds"] == self.settings.run.rounds:
            return result
        return train_run(self.run, folder, on_round, should_stop, before_keeping)

    def _plan(self, rounds: int) -> None:
        played = 0 if self._run is None else len(self.history)
        if rounds < max(1, played):
            raise ValueError(f"rounds must be {max(1, played)} or more, not {rounds}: {played} rounds were played")
        self.settings = self.settings.with_values(run={"rounds": rounds})
        if self._run is not None:
            self._run.settings = self.settings

    def _folder(self, path: Path) -> RunFolder:
        """Plan a new folder, or open one that holds this experiment already."""
        if not (path / "config.toml").is_file():
            return RunFolder.plan(self.settings, path)
        folder = RunFolder.open(path)
        other = differences(folder.settings(), self.settings)
        if other:
            raise RunError(f"{path} holds another experiment: {'; '.join(other)}. Choose another folder")
        folder.with_rounds(self.settings, self.settings.run.rounds)
        return folder

    def _train_in_memory(self, should_stop: Callable[[], bool]) -> dict[str, Any]:
        left = self.settings.run.rounds - len(self.history)
        with closing(self.run.rounds(left)) as rows:
            for _row in rows:
                if should_stop():
                    break
        result = result_of(self.settings, None, self.server, self.history)
        self._callbacks.on_end(self.run, result)
        return result

    def __repr__(self) -> str:
        return f"Experiment({self.settings.headline()})"
