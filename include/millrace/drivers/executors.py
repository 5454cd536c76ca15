"""How an app's slots become executors: what spark-submit is told for an app that runs on a cluster.

The only way to start with few executors and to change their number later that standalone, YARN and Kubernetes share is
dynamic allocation. It looks at waiting tasks and idle time, which a stream never shows, so the driver stops it once it
has asked for the first executors, and asks by itself from then on (:mod:`millrace.runtime.executors`).
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
    # an executor that goes gives away the shuffle output of the running batch before it ends
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "1s",
    # a lost executor is replaced; the app must outlive many of them
    "spark.executor.maxNumFailures": "1000",
    "spark.executor.failuresValidityInterval": "10m",
    "spark.task.maxFailures": "16",
    "spark.stage.maxConsecutiveAttempts": "16",
    "spark.speculation": "false",
    # only state is worth waiting for: by itself Spark also ties a task to where a fifth of its rows were written
    "spark.shuffle.reduceLocality.enabled": "false",
    # a partition waits this long for the executor that has its state, and so does a task of one that was lost
    "spark.locality.wait.process": "4s",
    "spark.locality.wait.node": "0",
    "spark.locality.wait.rack": "0",
    "spark.shuffle.io.retryWait": "1s",
    # memory of Python workers and state stores is outside of the heap
    "spark.executor.processTreeMetrics.enabled": "true",
}
"""Settings of every app on a cluster; a pipeline's own ``submit.conf`` wins."""

PYTHON_DAEMON = "millrace.runtime.executors.python_daemon"


def master_address(master: str, cluster: EmbeddedCluster | None) -> str:
    """Return the address behind a spec's master.

    Raises:
        MillraceError: If it is the embedded cluster, and there is none.
    """
    if master != EMBEDDED:
        return master
    if cluster is None:
        remedy = "Run ./millrace up, or set submit.master to local or to your cluster's address."
        raise MillraceError("submit.master", EMBEDDED, "a cluster that runs", remedy)
    return cluster.master


def executor_conf(app: AppDeployment, size: ExecutorSize) -> dict[str, str]:
    """Return the settings of an app on a cluster, but for those of :data:`CLUSTER`."""
    executors = str(app.executors)
    return {
        "spark.executor.cores": str(size.cores),
        "spark.executor.memory": f"{size.memory_mb}m",
        "spark.dynamicAllocation.minExecutors": executors,
        "spark.dynamicAllocation.initialExecutors": executors,
        "spark.dynamicAllocation.maxExecutors": executors,
        # a script that asks for it while it builds its plan gets tasks enough for any number of slots
        "spark.default.parallelism": str(app.max_parallelism),
    }


def local_executor_conf(driver: Mapping[str, str], modules: Sequence[Path]) -> dict[str, str]:
    """Return the settings of executors that share this machine's paths: class archive, modules, warm Python workers.

    Args:
        driver: The driver's settings; a class archive serves a JVM of the same class path only.
        modules: Folders that Python workers import from.
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
