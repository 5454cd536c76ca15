"""Which version of Spark needs what."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError

from millrace.model.errors import MillraceError
from millrace.runtime import spark_versions
from millrace.runtime.spark_versions import is_missing, lacks, require, streaming_runtime


@pytest.mark.parametrize(
    ("version", "package"), [("3.5.7", "old"), ("4.0.1", "old"), ("4.1.1", "new"), ("5.0.0", "new")]
)
def test_classes_of_running_queries_moved_with_4_1(version: str, package: str) -> None:
    streaming = SimpleNamespace(name="old", runtime=SimpleNamespace(name="new"))
    sql = SimpleNamespace(execution=SimpleNamespace(streaming=streaming))
    jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(sql=sql))))
    assert streaming_runtime(jvm, version).name == package


def test_requirement_names_the_version_and_what_to_do() -> None:
    require("a join", "4.1.1", spark_versions.JOIN)
    with pytest.raises(MillraceError, match=r"4\.1 or newer for a join.*submit\.python"):
        require("a join", "4.0.1", spark_versions.JOIN)
    with pytest.raises(MillraceError, match=r"4\.2 or newer"):
        require("another number of state partitions", "4.1.1", spark_versions.RESCALE)


def test_only_what_spark_lacks_switches_something_off() -> None:
    assert is_missing(Py4JError("An error occurred. Trace: py4j.Py4JException: Method registered([]) does not exist"))
    assert is_missing(TypeError("'JavaPackage' object is not callable"))
    assert not is_missing(OSError("/state does not exist"))
    assert "Spark 9.0.0 lacks" in lacks("9.0.0", TypeError("x"))
