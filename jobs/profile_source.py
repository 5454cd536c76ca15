"""Measure what a pipeline's source is made of: key groups, flows and streams. Started by spark-submit."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

sys.path.append(str(Path(__file__).resolve().parents[1]))

from include.lake.store import Lake
from include.model.errors import Conflict, MillraceError
from include.runtime.profile import Operator, Profile, run

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments; ends the process with a usage line where they are wrong."""
    parser = argparse.ArgumentParser(prog="profile_source.py", description=__doc__, allow_abbrev=False)
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--lake", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True, help="folder of the Delta source table")
    parser.add_argument("--time-column", required=True)
    parser.add_argument("--period-s", type=int, default=60)
    parser.add_argument(
        "--operators", default="[]", help='JSON list of {"name", "key": [column], "key_groups", "after": [name]}'
    )
    parser.add_argument("--stream", default="", help="columns that name an input stream, separated by commas")
    parser.add_argument("--since-version", type=int, default=-1, help="leave out versions up to this one")
    parser.add_argument("--through-version", type=int, default=None, help="by default the newest")
    return parser.parse_args(argv)


def profile_of(arguments: argparse.Namespace) -> Profile:
    """Return what to measure.

    Raises:
        MillraceError: If a value is malformed.
    """
    form = 'a JSON list of {"name": text, "key": [column, ...], "key_groups": >= 1, "after": [name, ...]}'
    try:
        operators = tuple(_operator(o) for o in json.loads(arguments.operators))
    except (ValueError, TypeError, KeyError) as error:
        raise MillraceError("--operators", arguments.operators, form, f"Fix the list ({error}).") from error
    if any(not o.key or o.key_groups < 1 for o in operators):
        raise MillraceError("--operators", arguments.operators, form, "Name key columns and at least one key group.")
    unknown = {first for o in operators for first in o.after} - {o.name for o in operators}
    if unknown:
        raise MillraceError(
            "--operators", arguments.operators, form, f"Add {', '.join(sorted(unknown))}, or name others."
        )
    if arguments.period_s < 1:
        raise MillraceError("--period-s", arguments.period_s, ">= 1", "Give the period in whole seconds.")
    stream = tuple(c.strip() for c in arguments.stream.split(",") if c.strip())
    source = arguments.source
    return Profile(arguments.pipeline, source, arguments.time_column, arguments.period_s, operators, stream)


def _operator(given: Mapping[str, Any]) -> Operator:
    return Operator(str(given["name"]), tuple(given["key"]), int(given["key_groups"]), tuple(given.get("after") or ()))


@contextmanager
def alone(lake: Path, pipeline: str) -> Iterator[None]:
    """Keep a retry from running beside a job whose caller has died: both would count the same rows.

    Raises:
        MillraceError: If another job of the pipeline runs, or the lake's folder cannot be written.
    """
    lock = FileLock(lake / f".profile-{pipeline}.lock")
    try:
        lake.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        remedy = "Wait for it to end, then try again."
        raise MillraceError("profile", pipeline, "one job of a pipeline at a time", remedy) from None
    except OSError as error:
        raise MillraceError("--lake", str(lake), "a writable folder", f"Name another one ({error}).") from error
    try:
        yield
    finally:
        lock.release()


def measure(profile: Profile, arguments: argparse.Namespace) -> int | None:
    """Run the measurement in a session of its own and return the version reached; see ``run``."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName(f"profile_{profile.pipeline}").config(map=DELTA).getOrCreate()
    try:
        return run(spark, Lake(arguments.lake), profile, arguments.since_version, arguments.through_version)
    finally:
        spark.stop()


def main(argv: Sequence[str]) -> int:
    """Run the job and return its exit code."""
    arguments = parse(argv)
    try:
        profile = profile_of(arguments)
        with alone(arguments.lake, profile.pipeline):
            reached = measure(profile, arguments)
    except (MillraceError, Conflict) as error:
        print(f"profile: {error}", file=sys.stderr)
        return 2
    print("profile: nothing new" if reached is None else f"profile: through version {reached} of {profile.source}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
