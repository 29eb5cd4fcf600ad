# SPDX-License-Identifier: GPL-3.0-or-later
"""The clients: plain Flower, but for the mod."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fl_app.flower import over_the_air_mod
from flower_letters import task

torch.set_num_threads(1)
app = ClientApp(mods=[over_the_air_mod])


@app.train()
def train(message: Message, context: Context) -> Message:
    run, node = context.run_config, context.node_config
    model = task.make_model(seed=0)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    inputs, targets = task.share(node["partition-id"], node["num-partitions"])
    this = run["seed"] * 1_000_000 + message.content["config"]["server-round"] * 1000 + node["partition-id"]
    loss = task.train(model, inputs, targets, run["local-steps"], run["batch-size"], run["local-lr"], seed=this)
    metrics = MetricRecord({"loss": loss, "num-examples": len(targets)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)
