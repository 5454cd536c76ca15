"""A windowed stream join: the script of every pipeline whose spec has a section ``join``.

Run by Millrace, it follows the pipeline's newest Deployment between two micro-batches and reports its workers' results
to the lake. Run by itself, it follows its command line, on a Spark with Delta.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "include"))

from millrace.joins.lake_link import DeployedSettings, JoinTelemetry
from millrace.joins.query import start
from millrace.lake.store import Lake
from millrace.model.codec import from_json
from millrace.model.errors import MillraceError
from millrace.model.join import JoinDefinition, JoinSettings
from millrace.run_folder.arguments import recognise
from millrace.runtime.spark_versions import JOIN, require


def main() -> None:
    """Run until stopped."""
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(prog="stream_join.py", description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--join", required=True, help="the join as JSON: millrace.model.join.JoinDefinition")
    parser.add_argument("--workers", type=int, default=1, help="workers that keep the window")
    parser.add_argument("--block", type=int, default=1000, help="tuples per block")
    parser.add_argument("--shed", type=float, default=0.0, help="share of the tuples that is dropped")
    options = parser.parse_args()
    try:
        definition = _definition(options.join)
        first = JoinSettings(options.workers, options.block, options.shed)
        spark = SparkSession.builder.appName("stream_join").getOrCreate()
        require("a join", spark.version, JOIN)
        driver = recognise(sys.orig_argv)
        if driver is None:
            start(spark, definition, lambda: first).awaitTermination()
        else:
            lake = Lake(driver.lake)
            settings = DeployedSettings(lake, driver.pipeline, first)
            telemetry = JoinTelemetry(lake, driver.pipeline, driver.app, driver.generation, definition.capacity)
            start(spark, definition, settings, telemetry, name=driver.pipeline).awaitTermination()
    except MillraceError as error:
        sys.exit(str(error))


def _definition(text: str) -> JoinDefinition:
    try:
        return from_json(JoinDefinition, text)
    except (ValueError, TypeError, KeyError) as error:
        remedy = f"Start this job from a pipeline's spec, which writes it ({error})."
        raise MillraceError("--join", text, "a JoinDefinition as JSON", remedy) from error


if __name__ == "__main__":
    main()
