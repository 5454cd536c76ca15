"""Split Nexmark's events by kind: a plain Structured Streaming job, the first app of each graph in this folder.

    events (Delta) -> those of one kind, perhaps filtered -> persons, auctions or bids (Delta)

Like the other apps in this folder, it does not depend on Millrace, only on Delta (``pip install delta-spark==4.4.0``).
Run it on its own with

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0
        --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension
        --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog
        split.py --kind bid --source DIR --results DIR --checkpoint DIR
"""

from __future__ import annotations

from nexmark_app import append, call_for_each, options  # type: ignore[import-not-found]
from pyspark.sql import SparkSession


def main() -> None:
    """Run until stopped."""
    arguments = options(__doc__.splitlines()[0], "source")
    arguments.add_argument("--kind", required=True, choices=("person", "auction", "bid"), help="kind of events to keep")
    arguments.add_argument("--where", default="true", help="condition on their columns, in SQL")
    given = arguments.parse_args()

    spark = SparkSession.builder.appName(f"split {given.kind}").getOrCreate()
    events = spark.readStream.format("delta").option("maxFilesPerTrigger", given.max_files).load(given.source)
    chosen = events.where(events["kind"] == given.kind).select("row_id", "event_time", f"{given.kind}.*")
    append(call_for_each(chosen, given.wait_ms).where(given.where), f"split_{given.kind}s", given)


if __name__ == "__main__":
    main()
