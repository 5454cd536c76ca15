"""Turn an app's slots into executors: the spark-submit settings of an app on a cluster.

Standalone, YARN and Kubernetes share only one way to start with few executors and change their number later: dynamic
allocation. It follows waiting tasks and idle time, which a stream never shows. So the driver stops it once it has
requested the first executors, and makes its own requests from then on (:mod:`millrace.runtime.agent`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from millrace.model.deployment import AppDeployment, ExecutorSize
from millrace.model.errors import MillraceError
from millrace.model.master import EMBEDDED
from millrace.model.submit_options import EmbeddedCluster, SubmitOptions

CLUSTER = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "false",
    # an executor that leaves hands over the shuffle output of the running batch before it ends
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "1s",
    # a lost executor is replaced; the app must survive many losses
    "spark.executor.maxNumFailures": "1000",
    "spark.executor.failuresValidityInterval": "10m",
    "spark.task.maxFailures": "16",
    "spark.stage.maxConsecutiveAttempts": "16",
    "spark.speculation": "false",
    # only state is worth waiting for: Spark would also tie a task to where a fifth of its rows were written
    "spark.shuffle.reduceLocality.enabled": "false",
    # a partition waits this long for the executor with its state, and so does a task of a lost executor
    "spark.locality.wait.process": "4s",
    "spark.locality.wait.node": "0",
    "spark.locality.wait.rack": "0",
    "spark.shuffle.io.retryWait": "1s",
    # one executor that ran out of memory would halve every later one; Millrace raises their memory instead
    "spark.kubernetes.allocation.recoveryMode.enabled": "false",
    # Python workers and state stores have their memory outside the heap
    "spark.executor.processTreeMetrics.enabled": "true",
}
"""Settings of every app on a cluster; a pipeline's own ``submit.conf`` wins."""

PYTHON_DAEMON = "millrace.runtime.agent.python_daemon"


def master_address(master: str, cluster: EmbeddedCluster | None) -> str:
    """Return the address behind a spec's master.

    Raises:
        MillraceError: If it is the embedded cluster and there is none.
    """
    if master != EMBEDDED:
        return master
    if cluster is None:
        remedy = "Run ./millrace up, or set submit.master to local or to your cluster's address."
        raise MillraceError("submit.master", EMBEDDED, "a running cluster", remedy)
    return cluster.master


def executor_conf(app: AppDeployment, size: ExecutorSize) -> dict[str, str]:
    """Return the settings of an app on a cluster, without those of :data:`CLUSTER`."""
    executors = str(app.executors)
    return {
        "spark.executor.cores": str(size.cores),
        "spark.executor.memory": f"{size.memory_mb}m",
        "spark.dynamicAllocation.minExecutors": executors,
        "spark.dynamicAllocation.initialExecutors": executors,
        "spark.dynamicAllocation.maxExecutors": executors,
        # a script that reads it while it builds its plan gets enough tasks for any number of slots
        "spark.default.parallelism": str(app.max_parallelism),
    }


def local_executor_conf(driver: Mapping[str, str], modules: Sequence[Path]) -> dict[str, str]:
    """Return the settings of executors that share this machine's paths: class archive, modules, warm Python workers.

    Args:
        driver: The driver's settings. A class archive only works for a JVM with the same class path.
        modules: Folders from which Python workers import.
    """
    conf = {
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(map(str, modules)),
        "spark.python.daemon.module": PYTHON_DAEMON,
    }
    for name in ("extraClassPath", "extraJavaOptions"):
        if f"spark.driver.{name}" in driver:
            conf[f"spark.executor.{name}"] = driver[f"spark.driver.{name}"]
    return conf


def login(options: SubmitOptions, master: str) -> list[str]:
    """Return the arguments of spark-submit that log a driver in to the embedded cluster: a file, never a secret."""
    if master != EMBEDDED or options.cluster is None or options.cluster.properties is None:
        return []
    return ["--properties-file", str(options.cluster.properties), "--load-spark-defaults"]
