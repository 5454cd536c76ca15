"""What differs between the versions of Spark that a driver may have, each with the version that brought it.

Whatever else Millrace uses of Spark's internals is the same from :data:`OLDEST` to the newest of :data:`TESTED`;
``./millrace test --stage versions`` runs a pipeline on each. On a newer version, everything is tried: what Spark no
longer has is switched off with a sentence, and telemetry and advice continue.
"""

from __future__ import annotations

from typing import Any

from millrace.model.errors import MillraceError

TESTED = ("3.5.7", "4.0.1", "4.1.1", "4.2.0", "4.3.0")
OLDEST = (3, 5)
"""``StreamingQueryListener.onQueryIdle``, and ``useArrow`` of ``udf``."""
STREAMING_RUNTIME = (4, 1)
"""Spark moved classes of running queries from ``execution.streaming`` to ``execution.streaming.runtime``."""
ONE_BATCH = (4, 0)
"""``executeOneBatch``, and an execution context per batch; before, the query itself kept a batch's durations."""
FILE_SIZES = (4, 0)
"""The file source lists its files with their sizes; before, the rows that wait in them are unknown."""
KEPT_RDD = (4, 0)
"""A node of an executed plan returns the RDD that it made; before, each call made another one."""
NO_MAP_OUTPUT = (4, 3)
"""py4j cannot read ``SparkEnv``, whose signatures name a class that PySpark does not ship: no flows."""
PLANNING = "queryPlanning"
DURATIONS_3_5 = "org$apache$spark$sql$execution$streaming$ProgressReporter$$currentDurationsMs"
CLIENT_METHOD = (4, 2)
"""Spark's back end on Kubernetes has a method that returns its client; before, only a field has it."""
CLIENT_4_1 = "org$apache$spark$scheduler$cluster$k8s$KubernetesClusterSchedulerBackend$$kubernetesClient"
JOIN = (4, 1)
"""``transformWithState`` of PySpark, with rows."""
RESCALE = (4, 2)
"""Spark can rewrite the state of a checkpoint for another number of partitions."""
MISSING = {
    "Py4JError": ("does not exist",),
    "Py4JJavaError": ("NoSuchMethodError", "NoSuchFieldError", "NoClassDefFoundError"),
    "TypeError": ("'JavaPackage' object is not callable",),
}
"""What py4j and the JVM say of something that a version of Spark does not have, by the type of the error."""


def numbers(version: str) -> tuple[int, int]:
    """Return the major and minor number of a version such as ``4.2.0`` or ``4.3.0-SNAPSHOT``."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def streaming_runtime(jvm: Any, version: str) -> Any:
    """Return the JVM's package with the classes of running queries.

    Args:
        jvm: The gateway's view of the JVM.
        version: Version of Spark.
    """
    streaming = jvm.org.apache.spark.sql.execution.streaming
    return streaming.runtime if numbers(version) >= STREAMING_RUNTIME else streaming


def trigger_frame(version: str) -> str:
    """Return what is on the stack of a query's thread during a trigger, the pause after an empty one included."""
    method = "executeOneBatch" if numbers(version) >= ONE_BATCH else "$anonfun$runActivatedStream$1"
    return f"MicroBatchExecution.{method}("


def is_planned(query: Any, version: str) -> bool:
    """Return whether the batch that a query runs has been planned.

    Args:
        query: The JVM's ``StreamExecution``.
        version: Version of Spark.
    """
    if numbers(version) >= ONE_BATCH:
        return bool(query.getLatestExecutionContext().getDuration(PLANNING).isDefined())
    return bool(getattr(query, DURATIONS_3_5)().contains(PLANNING))


def kubernetes_client(backend: Any, version: str) -> Any:
    """Return the client with which Spark talks to the Kubernetes API.

    Args:
        backend: The JVM's scheduler back end of an application on Kubernetes.
        version: Version of Spark.
    """
    if numbers(version) >= CLIENT_METHOD:
        return backend.kubernetesClient()
    from py4j.java_gateway import get_field  # type: ignore[import-untyped]

    return get_field(backend, CLIENT_4_1)


def require(what: str, version: str, since: tuple[int, int]) -> None:
    """Refuse to start something that a version of Spark cannot do.

    Args:
        what: What needs the version, for a person.
        version: Version of Spark.
        since: Version that brought it: major, minor.

    Raises:
        MillraceError: If the version is older.
    """
    if numbers(version) < since:
        needed = ".".join(map(str, since))
        remedy = f"Point submit.python to an environment with PySpark {needed} or newer."
        raise MillraceError("Spark", version, f"{needed} or newer for {what}", remedy)


def is_missing(error: BaseException) -> bool:
    """Return whether an error shows that this version of Spark lacks something that Millrace calls."""
    return any(part in str(error) for part in MISSING.get(type(error).__name__, ()))


def lacks(version: str, error: BaseException) -> str:
    """Return the sentence that switches something off.

    Args:
        version: Version of Spark.
        error: What a call of Spark's internals raised.
    """
    detail = " ".join(str(error).split())[:160]
    return (
        f"Spark {version} lacks something that changes executors ({detail}). Tested versions are {TESTED[0]} to "
        f"{TESTED[-1]}; telemetry and advice continue."
    )
