"""The fleet's function in ``bench fleet``: copy a table, and wait for a call to a service for each row.

The wait is real. It keeps a slot busy and leaves the processor free, so a node has a capacity even on a small machine.
It happens in the JVM: a Python worker per stream would cost more than the rest of its batches. So does Spark's own
writer for Delta tables, which reads the table's log with a Spark job in every batch. Without the option
``spark_writes``, the driver's Python appends the rows, and like Spark's writer it ignores a batch that it has written.
"""

import pyarrow as pa
from pyspark.sql.functions import expr

from millrace.lake.source_tables import SourceTable

TASKS = 4
"""Most tasks of a batch: a single stream cannot fill a node."""
SPREAD_MS = 61
"""Difference between the triggers of two streams: Spark aligns equal triggers, so all batches would start at once."""
SPREAD = 16
SCHEMA, CONTENT = pa.schema([("id", pa.int64())]), "copied by bench fleet"


def stream(spark, name, options):
    """Return the writer of one stream, whose name ends with its number."""
    called = expr(f"java_method('java.lang.Thread', 'sleep', {options['wait_ms']}L)")
    rows = spark.readStream.format("delta").load(f"{options['landing']}/{name}").coalesce(TASKS)
    trigger_ms = options["trigger_ms"] + SPREAD_MS * (int(name[1:]) % SPREAD)
    writer = rows.where(called.isNotNull()).writeStream.trigger(processingTime=f"{trigger_ms} milliseconds")
    sink = f"{options['bronze']}/{name}"
    if options["spark_writes"]:
        return writer.format("delta").option("path", sink)
    return writer.foreachBatch(appender(sink, name))


def appender(folder, name):
    """Return a function for ``foreachBatch`` that appends a stream's batches to a table, each once."""
    opened = []

    def append(batch, number):
        rows = batch.toArrow().cast(SCHEMA)
        if not opened:
            opened.append(SourceTable(folder, SCHEMA, CONTENT))
        opened[0].refresh()  # another node may have written
        if rows.num_rows:
            opened[0].append(rows, 1, name, number)

    return append
