# SPDX-License-Identifier: GPL-3.0-or-later
"""The server: plain Flower, but for the strategy."""

import json
from pathlib import Path

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fl_app.flower import OverTheAir
from flower_letters import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    run = context.run_config
    model = task.make_model(run["seed"])

    def evaluate(_round: int, arrays: ArrayRecord) -> MetricRecord:
        model.load_state_dict(arrays.to_torch_state_dict())
        return MetricRecord({"accuracy": task.accuracy(model)})

    strategy = OverTheAir(
        FedAvg(fraction_evaluate=0.0),
        air=run["air"],
        policy=run["policy"],
        rho=run["rho"],
        scheme=run["scheme"],
        lr=run["server-lr"],
        seed=run["seed"],
    )
    first = ArrayRecord(model.state_dict())
    result = strategy.start(grid, first, num_rounds=run["rounds"], evaluate_fn=evaluate)
    if run["result"]:
        tested = result.evaluate_metrics_serverapp
        Path(run["result"]).write_text(json.dumps([tested[t]["accuracy"] for t in sorted(tested)]), encoding="utf-8")
