"""Where a running query writes, as far as only its own objects in the JVM show it.

Spark internals: pinned to its version, covered by tests.
"""

from __future__ import annotations

from typing import Any

from millrace.runtime.telemetry import lineage

KAFKA_TABLE = "KafkaSourceProvider$KafkaTable"
DELTA = "DeltaSink["


def sink_name(query: Any, gateway: Any) -> str:
    """Return the name of a query's sink (:mod:`millrace.runtime.telemetry.lineage`); "" if it is not known.

    Args:
        query: Spark's own query, ``StreamExecution``, that has planned a batch or found none to plan.
        gateway: Py4J's gateway of the session.
    """
    sink = query.sink()
    if KAFKA_TABLE in str(sink.getClass().getName()):
        return lineage.topic(_write_option(query, "topic"))
    description = str(sink.toString())
    if description.startswith(DELTA):
        # Delta's sink shows the path as the script wrote it, and its source the qualified one
        return lineage.path(_qualified(description.removeprefix(DELTA).removesuffix("]"), query, gateway))
    return lineage.sink(description)


def _write_option(query: Any, name: str) -> str:
    """Return an option of the query's writer; "" if it is not set. Spark ignores the case of its name.

    Without Kafka's option ``topic``, each row names its own topic.
    """
    options = query.logicalPlan().writeOptions()
    keys = options.keysIterator()
    while keys.hasNext():
        key = keys.next()
        if str(key).lower() == name:
            return str(options.apply(key))
    return ""


def _qualified(uri: str, query: Any, gateway: Any) -> str:
    """Return a path with the scheme, host and folder that the session adds to an incomplete one."""
    if "://" in uri:
        return uri
    path = gateway.jvm.org.apache.hadoop.fs.Path(uri)
    system = path.getFileSystem(query.sparkSession().sessionState().newHadoopConf())
    return str(system.makeQualified(path).toString())
