"""The user's function is called for each stream; what it returns is checked before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millrace.fleet.user_function import load, prepare
from millrace.model.errors import MillraceError
from millrace.runtime.writers import local_folder

pytestmark = pytest.mark.spark


def script(folder: Path, body: str) -> Path:
    folder.joinpath("near.py").write_text("RATE = 1\n")
    path = folder / "ingest.py"
    path.write_text(f"from near import RATE\n\n\ndef stream(spark, name, options):\n    {body}\n")
    return path


ROWS = "spark.readStream.format('rate').option('rowsPerSecond', RATE).load().writeStream.format(options['format'])"


def test_writer_gets_its_name_and_checkpoint_and_shows_its_sink(spark: Any, tmp_path: Path) -> None:
    function = load(script(tmp_path, f"return {ROWS}.option('PATH', '{tmp_path}/out/' + name)"))
    made = prepare(function, spark, "a/b", {"format": "parquet"}, f"{tmp_path}/c/a~2fb")
    assert made.sink == f"path:{tmp_path}/out/a/b"
    query = made.writer.start()
    try:
        assert query.name == "a/b"
    finally:
        query.stop()
    assert (tmp_path / "c" / "a~2fb" / "metadata").exists()
    function = load(script(tmp_path, f"return {ROWS}.option('checkpointLocation', 'file:{tmp_path}/c/a')"))
    assert prepare(function, spark, "a", {"format": "noop"}, f"{tmp_path}/c/a").sink is None
    with pytest.raises(MillraceError, match="Leave checkpointLocation out"):
        prepare(function, spark, "b", {"format": "noop"}, f"{tmp_path}/c/b")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", "got 'NoneType'; allowed: a DataStreamWriter"),
        ("return spark.range(1)", "got 'DataFrame'"),
        (f"return {ROWS}.option('checkpointLocation', options['own']).start()", "without start()"),
    ],
)
def test_anything_but_a_writer_is_refused(spark: Any, tmp_path: Path, body: str, message: str) -> None:
    function = load(script(tmp_path, body))
    before = {query.id for query in spark.streams.active}
    with pytest.raises(MillraceError) as refused:
        prepare(function, spark, "a", {"format": "noop", "own": f"{tmp_path}/own"}, f"{tmp_path}/c")
    assert message in str(refused.value)
    assert {query.id for query in spark.streams.active} == before, "a query that it started has ended"


def test_script_without_the_function_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "ingest.py").write_text("import sys\n")
    with pytest.raises(MillraceError, match="Define stream in it"):
        load(path)
    path.write_text("raise ValueError('poison')\n")
    with pytest.raises(MillraceError, match="Importing it failed: ValueError: poison"):
        load(path)
    with pytest.raises(MillraceError, match="Create the file"):
        load(tmp_path / "missing.py")


def test_only_folders_of_this_machine_are_local(spark: Any, tmp_path: Path) -> None:
    assert local_folder(spark, str(tmp_path)) == local_folder(spark, f"file://{tmp_path}/") == tmp_path
