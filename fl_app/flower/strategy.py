# SPDX-License-Identifier: GPL-3.0-or-later
"""Offer the strategy that aggregates over the air and leaves everything else to the strategy that it wraps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fl_app.air.base import Uplink
from fl_app.config import ConfigError, check
from fl_app.experiment.describe import describe_air, describe_selection
from fl_app.experiment.pieces import LearningRate, ServerSGD
from fl_app.flower.layout import BUFFERS
from fl_app.flower.order import ORDER, PAYLOAD
from fl_app.flower.session import AirSession
from fl_app.flower.suitable import fault_of
from fl_app.runs.prepare import Objects
from oac_blocks.dsp.checks import integer, real
from oac_blocks.dsp.waveform.schemes import Scheme

_log = logging.getLogger("flwr")  # Flower's own logger, so that the lines stand among its own

VOTES_LR = 0.01  # server rate for majority votes: every parameter moves by it in each round, as in the paper


class OverTheAir(Strategy):
    """Aggregate the clients' updates over the air; the wrapped strategy does the rest.

    The wrapped strategy chooses the clients, configures them, evaluates, and aggregates the metrics. In place of the
    models of the clients it gets one model: the last one, moved against what the air delivered. `FedAvg` returns this
    model; `FedAvgM`, `FedAdam` and the like apply their own step to it. All clients need ``over_the_air_mod``.

    Every client counts alike on the air; the strategy's weights apply to the metrics, and to arrays beside the air.

    Parameters
    ----------
    strategy : Strategy
        A strategy of ``flwr.serverapp.strategy`` that needs only the average of the clients' models.
    air
        A name ("ideal", "fading", "waveform", "digital", "gnuradio"), settings such as ``Waveform(snr_db=15.0)``, an
        object with ``uplink(payload, clients, t)``, or a class or function that makes one.
    policy
        A name ("fair-k"), an object with ``next(g, age)``, or a class or function that makes one.
    rho : float, optional
        Share of the d entries sent in a round, 0.1 by default.
    k : int, optional
        Number of entries sent in a round, in place of `rho`.
    k_m_ratio, r_ratio : float, optional
        k_M/k of fair-k and top-rand, and r/k of age-top-k.
    scheme : optional
        "fsk-mv", "analog", "energy", an installed name or a `Scheme`, in place of the air's own.
    lr : float or LearningRate, optional
        Factor of what the air delivers. By default 1 for amplitudes, so that the model moves by the clients' mean
        change as in `FedAvg`, and 0.01 for votes, which have no magnitude.
    local_lr : float
        Learning rate of the clients' SGD. Clients divide their change by it, so that they send gradients, and `lr` is
        the server's learning rate of ``fl_app train``. With the default of 1 they send their change itself.
    abstain_below : float
        In a majority vote, a client does not vote on smaller values.
    n_clients : int, optional
        Number of clients that the air is made for. By default the number of partitions that the clients report, or of
        nodes that are connected in the first round. The update of a client that comes later, with a number beyond
        these, is left out, with a warning.
    beside_the_air : sequence of str
        Patterns of the names of arrays that the strategy averages without the air; by default torch's batch-norm
        statistics. Arrays of integers always go beside the air.
    seed : int
        Everything random on the air and in the policy follows from it.
    policy_args, air_args : mapping, optional
        Arguments of a policy or an air that is given by name or import string.

    Raises
    ------
    ConfigError
        If the strategy makes no sense over the air, or if a value is wrong.
    """

    def __init__(
        self,
        strategy: Strategy,
        air: Any = "waveform",
        policy: Any = "fair-k",
        rho: float | None = None,
        *,
        k: int | None = None,
        k_m_ratio: float | None = None,
        r_ratio: float | None = None,
        scheme: str | Scheme | type[Scheme] | None = None,
        lr: float | LearningRate | None = None,
        local_lr: float = 1.0,
        abstain_below: float = 0.0,
        n_clients: int | None = None,
        beside_the_air: Sequence[str] = BUFFERS,
        seed: int = 1,
        policy_args: Mapping[str, Any] | None = None,
        air_args: Mapping[str, Any] | None = None,
    ) -> None:
        fault = fault_of(strategy)
        if fault:
            raise ConfigError(fault)
        selection, own_policy = describe_selection(
            policy, policy_args, rho=rho, k=k, k_m_ratio=k_m_ratio, r_ratio=r_ratio
        )
        air_section, own_air = describe_air(air, air_args, scheme)
        if air_section["name"] == "pluto":
            raise ConfigError(
                "air = 'pluto' has radios, which Flower's clients do not hold; train over radios with `fl_app server` "
                "and `fl_app client`, or use the air 'waveform'"
            )
        tree = {
            "run": {"seed": seed},
            "clients": {"abstain_below": float(abstain_below)},
            "selection": selection,
            "air": air_section,
        }
        if lr is None:
            lr = 1.0 if check(tree, "OverTheAir").air.scheme.scaled else VOTES_LR
        self.settings = check({**tree, "server": ServerSGD(lr=lr).section()}, "OverTheAir")
        self.strategy = strategy
        self.local_lr = real("local_lr", local_lr, 0.0, open_low=True)
        self.n_clients = None if n_clients is None else integer("n_clients", n_clients, 1)
        self.beside_the_air = tuple(beside_the_air)
        self.session: AirSession | None = None
        self._objects = Objects(policy=own_policy, air=own_air)
        self._numbers: dict[int, int] = {}  # number on the air of each node without a partition-id

    def summary(self) -> None:
        """Log the settings of the air, and those of the wrapped strategy."""
        chosen, air = self.settings.selection, self.settings.air
        share = f"k = {chosen.k}" if chosen.k is not None else f"rho = {chosen.rho}"
        _log.info("\t├──> Over the air: %s, %s, %s, %s", air.name, air.scheme.name, chosen.policy, share)
        _log.info("\t├──> Around: %s", type(self.strategy).__name__)
        self.strategy.summary()

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Train for this number of rounds, as every strategy of Flower does; the air is closed at the end.

        Each start begins anew: with an empty gradient memory, and with all entries in the first round.
        """
        self.settings = self.settings.with_values(run={"rounds": max(1, num_rounds)})
        self.session = None
        self._numbers = {}
        try:
            return super().start(grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn)
        finally:
            self._close()

    def _close(self) -> None:
        if self.session is not None:
            self.session.close()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Add the order of this round to the messages of the wrapped strategy."""
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        model = {name: array.numpy() for name, array in arrays.items()}
        if self.session is None:
            self.session = AirSession(self.settings, self._objects, model, self.beside_the_air, self.local_lr)
            self._number(grid.get_node_ids())  # all that are connected, though some may not train in this round
        order = self.session.order(model, server_round - 1)
        self._number(message.metadata.dst_node_id for message in messages)
        for message in messages:
            number = self._numbers[message.metadata.dst_node_id]
            # The messages of a strategy may share one content.
            message.content = RecordDict({**message.content, ORDER: ConfigRecord(order.for_client(number))})
        return messages

    def _number(self, nodes: Iterable[int]) -> None:
        for node in sorted(nodes):
            self._numbers.setdefault(node, len(self._numbers))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Send the payloads over the air, and give the wrapped strategy the model that comes of it."""
        assert self.session is not None, "configure_train() comes first"
        replies = list(replies)
        answers = [_Answer(reply) for reply in replies if not reply.has_error()]
        if answers and self.session.air is None:
            self.session.open(self.n_clients or self._count(answers))
        uplink = self.session.deliver(_payloads(answers, self.session.n_clients), server_round - 1)
        if uplink is None:
            _log.warning("aggregate_train: nothing was received over the air; the model stays as it is")
            # The wrapped strategy logs the errors of clients, and has nothing to average.
            return self.strategy.aggregate_train(server_round, [reply for reply in replies if reply.has_error()])
        model = {name: Array(array) for name, array in self.session.arrays().items()}
        for answer in answers:
            answer.put(model)
        arrays, metrics = self.strategy.aggregate_train(server_round, replies)
        if arrays is not None:
            rounded = self.session.layout.rounded({name: array.numpy() for name, array in arrays.items()})
            arrays = ArrayRecord({name: Array(array) for name, array in rounded.items()})
        return arrays, MetricRecord({**(metrics or {}), **_figures(uplink)})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Leave the evaluation to the wrapped strategy."""
        messages: Iterable[Message] = self.strategy.configure_evaluate(server_round, arrays, config, grid)
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Leave the metrics of the evaluation to the wrapped strategy."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def _count(self, answers: Sequence[_Answer]) -> int:
        """Return the number of clients that the air is made for."""
        return max(len(self._numbers), *(max(answer.client + 1, answer.clients) for answer in answers))


class _Answer:
    """Hold the parts of a client's reply."""

    def __init__(self, reply: Message) -> None:
        own = reply.content.config_records.get(ORDER)
        if own is None:
            raise ConfigError(
                f"node {reply.metadata.src_node_id} answered without a payload: its ClientApp lacks the mod; write "
                "ClientApp(mods=[over_the_air_mod]), with over_the_air_mod of fl_app.flower"
            )
        self.client, self.clients = int(own["client"]), int(own["clients"])
        self._reply = reply
        self._key, arrays = next(iter(reply.content.array_records.items()))
        self._beside = {name: array for name, array in arrays.items() if name != PAYLOAD}
        self.payload = arrays[PAYLOAD].numpy() if PAYLOAD in arrays else None

    def put(self, model: Mapping[str, Array]) -> None:
        """Replace the payload by a model; the arrays beside the air stay."""
        rest = {key: record for key, record in self._reply.content.items() if key != ORDER}
        self._reply.content = RecordDict({**rest, self._key: ArrayRecord({**model, **self._beside})})


def _payloads(answers: Iterable[_Answer], n_clients: int) -> dict[int, Any]:
    """Return the payloads by client, without updates that are not finite and clients that the air has no place for."""
    found: dict[int, Any] = {}
    for answer in answers:
        if answer.client in found:
            raise ConfigError(
                f"two nodes are client {answer.client} on the air; give each node a partition-id of its own, or none "
                "to any of them"
            )
        if answer.payload is not None and answer.client >= n_clients:
            _log.warning(
                "aggregate_train: the update of client %d is left out: the air was made for %d clients in the first "
                "round; tell OverTheAir how many there will be, with n_clients",
                answer.client,
                n_clients,
            )
        elif answer.payload is not None:
            found[answer.client] = answer.payload
    return found


def _figures(uplink: Uplink) -> dict[str, float]:
    """Return the figures of a round on the air, as metrics."""
    figures: dict[str, float] = {
        "air-entries": len(uplink.received),
        "air-heard": int(uplink.heard.size),
        "air-symbols": uplink.symbols,
        "air-seconds": uplink.air_seconds,
    }
    return figures if uplink.snr_db is None else {**figures, "air-snr-db": uplink.snr_db}
