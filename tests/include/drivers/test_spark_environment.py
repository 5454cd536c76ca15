"""The Spark of the environment that a pipeline names."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.drivers import submit
from millrace.model.deployment import AppDeployment
from millrace.model.errors import MillraceError
from millrace.model.submit_options import EmbeddedCluster, SubmitOptions
from millrace.run_folder.arguments import DriverArguments


def spark(folder: Path, version: str) -> Path:
    """Make an environment with a PySpark of this version and return its interpreter."""
    packages = folder / "lib" / "python3.11" / "site-packages"
    (packages / "pyspark" / "bin").mkdir(parents=True)
    (packages / f"pyspark-{version}.dist-info").mkdir()
    (packages / "pyspark_client-4.2.0.dist-info").mkdir()
    return folder / "bin" / "python"


@pytest.fixture
def options(tmp_path: Path) -> SubmitOptions:
    spark(tmp_path / "own", "4.2.0")
    program = tmp_path / "own" / "lib" / "python3.11" / "site-packages" / "pyspark" / "bin" / "spark-submit"
    conf = {
        "spark.driver.extraClassPath": "/jars/delta.jar",
        "spark.driver.extraJavaOptions": "-XX:SharedArchiveFile=a",
    }
    return SubmitOptions(program, (Path("/jars/delta.jar"),), conf, cluster=EmbeddedCluster("spark://127.0.0.1:7077"))


def started(options: SubmitOptions, python: Path | None, master: str = "spark://far:7077") -> tuple[list[str], str]:
    """Return the command of a driver and its SPARK_HOME."""
    how = {"master": master, "python": None if python is None else str(python)}
    app = AppDeployment("/s.py", (), 1, 1024, 2, how)
    arguments = DriverArguments("p", "a", 1, 1, 1, 0, Path("/run"), "/lake", 60.0, 60.0, 60.0, Path("/s.py"))
    return submit.command(options, app, arguments), submit.environment(options, app, {}).get("SPARK_HOME", "")


@pytest.mark.parametrize(
    ("version", "delta"),
    [
        ("3.5.7", "io.delta:delta-spark_2.12:3.3.2"),
        ("4.0.1", "io.delta:delta-spark_4.0_2.13:4.4.0"),
        ("4.3.0", None),
    ],
)
def test_driver_is_started_by_its_own_spark_with_the_delta_for_it(
    options: SubmitOptions, tmp_path: Path, version: str, delta: str | None
) -> None:
    words, home = started(options, spark(tmp_path / "theirs", version))
    folder = tmp_path / "theirs" / "lib" / "python3.11" / "site-packages" / "pyspark"
    assert (words[0], home) == (str(folder / "bin" / "spark-submit"), str(folder))
    packages = words[words.index("--packages") + 1] if "--packages" in words else None
    assert packages == delta
    text = " ".join(words)
    assert "/jars/delta.jar" not in text and "SharedArchiveFile" not in text
    assert ("DeltaSparkSessionExtension" in text) is (delta is not None)


def test_environment_without_pyspark_uses_this_installation(options: SubmitOptions, tmp_path: Path) -> None:
    for python in (None, tmp_path / "bare" / "bin" / "python"):
        words, _ = started(options, python)
        assert words[0] == str(options.spark_submit) and "--packages" not in words


def test_embedded_cluster_takes_only_its_own_version(options: SubmitOptions, tmp_path: Path) -> None:
    with pytest.raises(MillraceError, match=r"submit.python: .* PySpark 4\.2, as the embedded cluster has"):
        started(options, spark(tmp_path / "theirs", "3.5.7"), "embedded")
    words, _ = started(options, spark(tmp_path / "same", "4.2.1"), "embedded")
    assert "/same/" in words[0]
