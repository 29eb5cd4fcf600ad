# SPDX-License-Identifier: GPL-3.0-or-later
"""Say which strategies make sense over the air: those that need no more of the clients' models than their average."""

from __future__ import annotations

_EACH = "it compares the models of single clients, and the air delivers only their sum"
_PRIVACY = (
    "its noise is counted for one average of clipped updates, and over the air a received entry is applied again in "
    "each round until it is refreshed; to clip updates, put a mod of your own after over_the_air_mod"
)
_TREES = "it collects trees, and the air adds up numbers"

# Classes of flwr.serverapp.strategy; a subclass of one of them is refused as well.
REFUSED = {
    "Bulyan": _EACH,
    "FedMedian": _EACH,
    "FedTrimmedAvg": _EACH,
    "Krum": _EACH,
    "MultiKrum": _EACH,
    "QFedAvg": "it weights the update of each client by the client's loss, and the air adds them up unweighted",
    "FedXgbBagging": _TREES,
    "FedXgbCyclic": _TREES,
    "DifferentialPrivacyServerSideFixedClipping": _PRIVACY,
    "DifferentialPrivacyServerSideAdaptiveClipping": _PRIVACY,
    "DifferentialPrivacyClientSideFixedClipping": _PRIVACY,
    "DifferentialPrivacyClientSideAdaptiveClipping": _PRIVACY,
}
AVERAGING = ("FedAvg", "FedProx", "FedAvgM", "FedAdagrad", "FedAdam", "FedYogi")


def fault_of(strategy: object) -> str:
    """Return why a strategy cannot be used over the air, as a sentence with a way out; empty if it can."""
    name = strategy.__name__ if isinstance(strategy, type) else type(strategy).__name__
    if isinstance(strategy, type):
        return f"strategy must be a strategy, not the class {name}: write {name}()"
    if hasattr(strategy, "configure_fit"):
        return (
            f"{name} is a strategy of Flower's older interface: take the one of the same name from "
            "flwr.serverapp.strategy"
        )
    if not hasattr(strategy, "configure_train") or not hasattr(strategy, "aggregate_train"):
        return f"strategy must be a strategy of flwr.serverapp.strategy, not {name}"
    for base in type(strategy).__mro__:
        if base.__name__ in REFUSED and base.__module__.startswith("flwr."):
            return f"{name} makes no sense over the air: {REFUSED[base.__name__]}. Use one of {', '.join(AVERAGING)}"
        if "start" in vars(base) and base.__name__ != "Strategy":
            return (
                f"{name} has a start() of its own, which would leave the air out; override configure_train or "
                "aggregate_train instead"
            )
    return ""
