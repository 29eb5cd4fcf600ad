# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a Ray cluster of several nodes on this machine, on loopback, and connect this process to it."""

import contextlib
import logging
import os
import signal

from fl_app.engine.ray_cluster import closed_to_others
from fl_app.processes.private_folder import PrivateFolder

STORE_BYTES = 100 * 2**20  # size of each node's object store


@contextlib.contextmanager
def ray_cluster(**head):
    """Yield Ray's own ``Cluster`` with one node, its head, of these resources; ``cluster.add_node`` adds others.

    Programs that are started inside join it by its address: they inherit its environment.
    """
    import ray
    from ray.cluster_utils import Cluster

    handler = signal.getsignal(signal.SIGTERM)
    with PrivateFolder("oac-ray-test-") as folder, closed_to_others(ray):
        # closed_to_others puts RAY_AUTH_MODE back in the end. Ray reads the first two while it starts or is imported.
        here = {"RAY_TMPDIR": str(folder), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        os.environ.update(here, RAY_AUTH_MODE="token")
        ray._raylet.Config.initialize("")
        cluster = Cluster(head_node_args={"include_dashboard": False, "object_store_memory": STORE_BYTES, **head})
        try:
            cluster.add_node(include_dashboard=False, object_store_memory=STORE_BYTES, **head)
            ray.init(cluster.address, log_to_driver=False, logging_level=logging.ERROR)
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()
            signal.signal(signal.SIGTERM, handler)
            for name in here:
                del os.environ[name]
