# SPDX-License-Identifier: GPL-3.0-or-later
# mypy: disable-error-code="import-not-found"
"""Measure the rounds of Flower's simulation without training. This runs where Flower is installed, without our code.

    python flower_peer.py ENGINE N_CLIENTS CPUS_PER_CLIENT ENTRIES ROUNDS FOLDER

The clients return the array that they receive; the server averages it and does not evaluate. ``ENGINE`` is
``messages`` (ServerApp and ClientApp) or ``legacy`` (start_simulation). The last printed line is a JSON list of the
seconds of each round, from the moment at which the server composes the messages of a round to that of the next.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import Any

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_DEDUP_LOGS"] = "0"
# The priority of the clients that they are compared with. With Ray's own 15 they would wait for all other programs.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray wants it so)

import numpy as np

Ray = dict[str, Any]


def messages_engine(n_clients: int, cpus: float, entries: int, rounds: int, ray: Ray) -> list[float]:
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    began: list[float] = []

    class Timed(FedAvg):
        def configure_train(self, server_round: int, *rest: Any) -> Any:
            began.append(time.perf_counter())
            return super().configure_train(server_round, *rest)

    client = ClientApp()

    @client.train()
    def train(message: Message, _context: Context) -> Message:
        content = {"arrays": message.content["arrays"], "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    server = ServerApp()

    @server.main()
    def main(grid: Grid, _context: Context) -> None:
        while len(list(grid.get_node_ids())) < n_clients:
            time.sleep(0.01)
        strategy = Timed(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=n_clients)
        strategy.start(grid, ArrayRecord([np.zeros(entries, np.float32)]), num_rounds=rounds)

    backend = {"client_resources": {"num_cpus": cpus, "num_gpus": 0.0}, "init_args": ray}
    run_simulation(server, client, n_clients, backend_config=backend)
    return np.diff(began).tolist()


def legacy_engine(n_clients: int, cpus: float, entries: int, rounds: int, ray: Ray) -> list[float]:
    from flwr.client import Client, NumPyClient
    from flwr.common import ndarrays_to_parameters
    from flwr.server import ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.simulation import start_simulation

    began: list[float] = []

    class Timed(FedAvg):
        def configure_fit(self, server_round: int, *rest: Any, **more: Any) -> Any:
            began.append(time.perf_counter())
            return super().configure_fit(server_round, *rest, **more)

    class Echo(NumPyClient):
        def fit(self, parameters: list[Any], _config: Any) -> Any:
            return parameters, 1, {}

    def client_fn(_context: Any) -> Client:
        return Echo().to_client()

    strategy = Timed(
        fraction_fit=1.0,
        fraction_evaluate=0.0,
        min_fit_clients=n_clients,
        min_available_clients=n_clients,
        initial_parameters=ndarrays_to_parameters([np.zeros(entries, np.float32)]),
    )
    start_simulation(
        client_fn=client_fn,
        num_clients=n_clients,
        client_resources={"num_cpus": cpus, "num_gpus": 0.0},
        config=ServerConfig(num_rounds=rounds),
        strategy=strategy,
        ray_init_args=ray,
    )
    return np.diff(began).tolist()


ENGINES = {"messages": messages_engine, "legacy": legacy_engine}

if __name__ == "__main__":
    logging.disable(logging.WARNING)
    engine, n_clients, cpus, entries, rounds, folder = sys.argv[1:]
    os.environ["FLWR_HOME"] = folder
    ray_args = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False, "_temp_dir": folder}
    seconds = ENGINES[engine](int(n_clients), float(cpus), int(entries), int(rounds), ray_args)
    print(json.dumps(seconds), flush=True)
