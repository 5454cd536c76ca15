"""Count rows and bytes of the input streams of a pipeline's source per period. Started by spark-submit."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

sys.path.append(str(Path(__file__).resolve().parents[1] / "include"))

from millrace.lake.location import Location
from millrace.lake.store import Lake
from millrace.model.errors import Conflict, MillraceError
from millrace.runtime.profile import Profile, run

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments; end the process with a usage line if they are wrong."""
    parser = argparse.ArgumentParser(prog="profile_source.py", description=__doc__, allow_abbrev=False)
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--lake", type=Location.of, required=True, help="folder or URI of the lake")
    parser.add_argument("--source", type=Path, required=True, help="folder of the Delta source table")
    parser.add_argument("--time-column", required=True)
    parser.add_argument("--period-s", type=int, default=60)
    parser.add_argument("--stream", required=True, help="columns that name an input stream, separated by commas")
    parser.add_argument("--since-version", type=int, default=-1, help="leave out versions up to this one")
    return parser.parse_args(argv)


def profile_of(arguments: argparse.Namespace) -> Profile:
    """Return what to count.

    Raises:
        MillraceError: If a value is malformed.
    """
    if arguments.period_s < 1:
        raise MillraceError("--period-s", arguments.period_s, ">= 1", "Give the period in whole seconds.")
    stream = tuple(c.strip() for c in arguments.stream.split(",") if c.strip())
    if not stream:
        raise MillraceError("--stream", arguments.stream, "columns, commas between", "Name at least one column.")
    return Profile(arguments.pipeline, arguments.source, arguments.time_column, arguments.period_s, stream)


@contextmanager
def alone(lake: Location, pipeline: str) -> Iterator[None]:
    """Keep a retry from running at the same time as a job whose caller has died: both would count the same rows.

    Raises:
        MillraceError: If another job of the pipeline runs, or the lake's folder cannot be written.
    """
    folder = lake.folder or Path(tempfile.gettempdir())  # a retry runs on the same machine
    lock = FileLock(folder / f".profile-{pipeline}.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
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


def count(profile: Profile, arguments: argparse.Namespace) -> int | None:
    """Count in its own session and return the version reached; see ``run``."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName(f"profile_{profile.pipeline}").config(map=DELTA).getOrCreate()
    try:
        return run(spark, Lake(arguments.lake), profile, arguments.since_version)
    finally:
        spark.stop()


def main(argv: Sequence[str]) -> int:
    """Run the job and return its exit code."""
    arguments = parse(argv)
    try:
        profile = profile_of(arguments)
        with alone(arguments.lake, profile.pipeline):
            reached = count(profile, arguments)
    except (MillraceError, Conflict) as error:
        print(f"profile: {error}", file=sys.stderr)
        return 2
    print("profile: nothing new" if reached is None else f"profile: through version {reached} of {profile.source}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
