"""The Spark session of a driver: made before the user's script, which then gets this very one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = ("spark.sql.", "spark.databricks.")


def build() -> SparkSession:
    """Return the session that spark-submit's settings describe; the script's own ``.master()`` comes too late."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def restore(spark: SparkSession) -> None:
    """Set what spark-submit was told once more: a script's ``.config()`` overwrites it in the shared session.

    Args:
        spark: The session of the query that is about to start.
    """
    for key, value in spark.sparkContext.getConf().getAll():
        if key.startswith(SETTINGS) and spark.conf.isModifiable(key):
            spark.conf.set(key, value)
