# SPDX-License-Identifier: GPL-3.0-or-later
"""Offer the mod that makes a Flower client send k entries of its update in place of its whole model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

from fl_app.flower.order import ORDER, PAYLOAD, RoundOrder


def over_the_air_mod(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
    """Let the app train, and replace the model in its reply by the payload that the server ordered.

    A message without an order passes as it is: evaluations, and those of a server whose strategy is not `OverTheAir`.
    Put this mod first in the list. A mod behind it (one that clips the update, say) then sees the messages that it
    would see without the air.

    Parameters
    ----------
    message : Message
        What the server sent.
    context : Context
        The node's context. Its ``partition-id``, where it has one, is the client's number on the air.
    call_next : callable
        The next mod, or the app.

    Returns
    -------
    Message
        The app's reply, with the payload in place of the arrays that go over the air.
    """
    if ORDER not in message.content.config_records:
        return call_next(message, context)
    order = RoundOrder.from_record(message.content.config_records[ORDER])
    # The app sees the message that the wrapped strategy made.
    message.content = RecordDict({key: record for key, record in message.content.items() if key != ORDER})
    sent = _only_arrays(message.content, "the strategy's message")[1]
    before = {name: array.numpy() for name, array in sent.items()}
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    key, returned = _only_arrays(reply.content, "the reply of the ClientApp")
    client = int(context.node_config.get("partition-id", order.client))
    payload = order.payload(before, {name: array.numpy() for name, array in returned.items()}, client)
    arrays = {name: array for name, array in returned.items() if name not in order.names}
    if payload is not None:
        arrays[PAYLOAD] = Array(payload)
    answer: dict[str, Any] = {"client": client, "clients": int(context.node_config.get("num-partitions", 0))}
    reply.content = RecordDict({**reply.content, key: ArrayRecord(arrays), ORDER: ConfigRecord(answer)})
    return reply


def _only_arrays(content: RecordDict, title: str) -> tuple[str, ArrayRecord]:
    """Return the key of the only ArrayRecord, and the record."""
    records = list(content.array_records.items())
    if len(records) != 1:
        raise ValueError(
            f"over_the_air_mod: {title} must hold exactly one ArrayRecord, the model, not {len(records)}; put further "
            "arrays into the same record, under names that beside_the_air of OverTheAir lists"
        )
    return records[0]
