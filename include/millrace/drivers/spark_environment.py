"""The Spark of the environment that ``submit.python`` names: a driver is started by its spark-submit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from millrace.model.errors import MillraceError
from millrace.model.master import EMBEDDED
from millrace.model.spec_sections import Submit
from millrace.model.submit_options import SubmitOptions

DELTA: Mapping[str, str] = {
    "3.5": "io.delta:delta-spark_2.12:3.3.2",
    "4.0": "io.delta:delta-spark_4.0_2.13:4.4.0",
    "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
}
"""Delta's package by version of Spark. There is none for 4.3 yet: a script without Delta runs there."""
OF_OUR_JARS = ("extraClassPath", "extraJavaOptions")
"""Settings of this installation that name its jars and its class archive, which only fits those."""


@dataclass(frozen=True)
class SparkEnvironment:
    """PySpark as installed in an environment: its folder and version."""

    home: Path
    version: str

    @property
    def minor(self) -> str:
        """Its version without the last number."""
        return ".".join(self.version.split(".")[:2])


def environment_of(home: Path) -> SparkEnvironment | None:
    """Return the PySpark in a folder ``pyspark`` of an environment; None if its version cannot be found."""
    for found in home.parent.glob("pyspark-*.dist-info"):
        version = found.name.removeprefix("pyspark-").removesuffix(".dist-info")
        if version[:1].isdigit():
            return SparkEnvironment(home, version)
    return None


def named(python: str | None) -> SparkEnvironment | None:
    """Return the PySpark of an interpreter's environment; None without an interpreter, or if it has none of its own."""
    if python is None:
        return None
    folders = Path(python).expanduser().parent.parent.glob("lib/python*/site-packages/pyspark")
    return next(filter(None, map(environment_of, sorted(folders))), None)


def with_environment(options: SubmitOptions, submit: Submit) -> SubmitOptions:
    """Return an installation's options with the Spark of the environment that a pipeline names, if it has its own.

    Args:
        options: The installation's options.
        submit: The pipeline's ``submit``.

    Raises:
        MillraceError: If the embedded cluster has another version.
    """
    theirs, ours = named(submit.python), environment_of(options.spark_submit.parent.parent)
    if theirs is None or theirs == ours:
        return options
    if submit.master == EMBEDDED and (ours is None or ours.minor != theirs.minor):
        cluster = f"PySpark {ours.minor}" if ours else "this installation's PySpark"
        remedy = f"It has PySpark {theirs.version}: set submit.master to local, or to a cluster of that version."
        raise MillraceError("submit.python", submit.python, f"{cluster}, as the embedded cluster has", remedy)
    delta = DELTA.get(theirs.minor)
    kept = {key: value for key, value in options.conf.items() if not key.endswith(OF_OUR_JARS)}
    return replace(
        options,
        spark_submit=theirs.home / "bin" / "spark-submit",
        jars=(),
        packages=(delta,) if delta else (),
        has_delta=delta is not None,
        conf=kept,
        env={**options.env, "SPARK_HOME": str(theirs.home)},
    )
