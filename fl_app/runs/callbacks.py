# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell others what happens in a run: after each round, after each test of the model, and at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from fl_app.runs.metrics import RoundFigures

if TYPE_CHECKING:
    from fl_app.runs.run import Run


class Callback:
    """Be told what happens in a run; a subclass overrides what it needs.

    ``run`` has `server` (w, g, age, selected), `model`, `history` and `settings`. A callback must not change them.

    Examples
    --------
    >>> class Print(oac.Callback):
    ...     def on_evaluate(self, run, row):
    ...         print(row.round, run.server.selected.size)
    >>> x, y = np.eye(4, dtype=np.float32), np.arange(4)
    >>> run = oac.Experiment(
    ...     lambda: torch.nn.Linear(4, 4), oac.Data((x, y), (x, y)), clients=2, k=2, air="ideal", callbacks=[Print()]
    ... )
    >>> result = run.train(2)
    0 2
    1 2
    """

    def on_round(self, run: Run, row: RoundFigures) -> None:
        """Take the figures of a round, after the server's update."""

    def on_evaluate(self, run: Run, row: RoundFigures) -> None:
        """Take the figures of a round in which the model was tested, after `on_round`."""

    def on_end(self, run: Run, result: dict[str, Any] | None) -> None:
        """Take the result of the run; None if it was stopped before its last round."""

    def close(self) -> None:
        """Write out what was held back; this is called at the end, also after an error."""


class _OnRound(Callback):
    def __init__(self, function: Callable[[Run, RoundFigures], None]) -> None:
        self._function = function

    def on_round(self, run: Run, row: RoundFigures) -> None:
        self._function(run, row)


class CallbackList(Callback):
    """Pass everything on to several callbacks, in their order. A plain function counts as an ``on_round``."""

    def __init__(self, callbacks: Iterable[Callback | Callable[[Run, RoundFigures], None]] = ()) -> None:
        self._callbacks: list[Callback] = []
        for one in callbacks:
            known = any(hasattr(one, name) for name in ("on_round", "on_evaluate", "on_end"))
            if not known and not callable(one):
                raise ValueError(
                    f"a callback must have on_round, on_evaluate or on_end, or be a function, not {type(one).__name__}"
                )
            self._callbacks.append(one if known else _OnRound(one))  # type: ignore[arg-type]

    def on_round(self, run: Run, row: RoundFigures) -> None:
        self._tell("on_round", run, row)
        if row.test_loss is not None or row.test_accuracy is not None:
            self.on_evaluate(run, row)

    def on_evaluate(self, run: Run, row: RoundFigures) -> None:
        self._tell("on_evaluate", run, row)

    def on_end(self, run: Run, result: dict[str, Any] | None) -> None:
        self._tell("on_end", run, result)

    def close(self) -> None:
        self._tell("close")

    def _tell(self, name: str, *what: Any) -> None:
        for one in self._callbacks:
            method = getattr(one, name, None)  # any object with some of the methods will do
            if method is not None:
                method(*what)
