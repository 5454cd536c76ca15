"""A node of a fleet: the script of every app of a pipeline whose spec has a section ``fleet``.

Run by Millrace, it runs the streams that the pipeline's newest Deployment assigns to its app. Run by itself, it runs
the streams of its command line, on a Spark with the connectors that they need.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "include"))

from millrace.fleet import status
from millrace.fleet.assignment import DeployedStreams, fixed, parse
from millrace.fleet.node import MODE, Node, keep_ready
from millrace.fleet.queries import NodeSettings
from millrace.fleet.user_function import StreamFunction, load
from millrace.lake.store import Lake
from millrace.model.errors import MillraceError
from millrace.run_folder.arguments import DriverArguments, recognise
from millrace.run_folder.driver_records import app_dir
from millrace.runtime.gate import Closed
from millrace.runtime.stop import StopRequest


def main() -> None:
    """Run until stopped."""
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(prog="fleet_node.py", description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--script", type=Path, required=True, help="Python file with stream(spark, name, options)")
    parser.add_argument("--checkpoints", required=True, help="folder or URI with one checkpoint per stream")
    parser.add_argument("--options", type=json.loads, default={}, help="options for the function, as a JSON object")
    parser.add_argument("--streams", default="", help="streams to run without Millrace: a,b,c or a JSON list")
    parser.add_argument("--most-starts", type=int, default=4, help="streams that may start at once")
    stop = "time for a stream to end its batch, seconds; drivers of Millrace have stop_deadline_s of the spec"
    parser.add_argument("--stop-deadline", type=float, default=30.0, help=stop)
    given = parser.parse_args()
    try:
        function = load(given.script)
        driver = recognise(sys.orig_argv)
        settings = settings_of(given, driver)
        spark = SparkSession.builder.appName("fleet_node").config(MODE, "FAIR").getOrCreate()
        if driver is None:
            node = Node(spark, function, settings, fixed(parse(given.streams)))
            StopRequest(node.stop).install()
            node.run()
        else:
            _run(spark, function, settings, driver)
    except MillraceError as error:
        sys.exit(str(error))


def settings_of(given: argparse.Namespace, driver: DriverArguments | None) -> NodeSettings:
    """Return the settings of a node.

    Args:
        given: The script's arguments.
        driver: Those of its driver; None without Millrace.
    """
    shared = Path(tempfile.gettempdir()) if driver is None else driver.run_dir / driver.pipeline
    stop_deadline_s = given.stop_deadline if driver is None else driver.stop_deadline_s
    locks = shared / "stream-locks"
    return NodeSettings(given.checkpoints, locks, given.options, stop_deadline_s, given.most_starts)


def _run(spark: Any, function: StreamFunction, settings: NodeSettings, driver: DriverArguments) -> None:
    """Follow the Deployments and report to the run folder until the driver is asked to stop."""
    run_dir, pipeline, app, generation = driver.run_dir, driver.pipeline, driver.app, driver.generation
    streams = DeployedStreams(Lake(driver.lake), pipeline, app)

    def report(version: int, told: tuple[status.StreamStatus, ...]) -> None:
        status.write(run_dir, pipeline, app, status.NodeStatus(generation, version, told))

    others = partial(status.phases, run_dir, pipeline)
    heartbeat = keep_ready(spark, app_dir(run_dir, pipeline, app) / "heartbeat")  # waits for the app's lock
    Node(spark, function, settings, streams, report, others, heartbeat).run()
    if (error := heartbeat.exception()) is not None:
        raise error
    raise Closed(0)  # a stream that failed is no reason for the driver to fail


if __name__ == "__main__":
    main()
