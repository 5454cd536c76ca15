"""The user's ``stream(spark, name, options)``: load it from the script, call it, and check what it returns."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.model.errors import MillraceError
from millrace.model.failure import reason
from millrace.runtime.telemetry import lineage
from millrace.runtime.writers import qualified, writer_option

FUNCTION = "stream"
MODULE = "fleet_script"
"""Name of the loaded module: that of its file may belong to another module already."""
CHECKPOINT = "checkpointLocation"

StreamFunction = Callable[[Any, str, dict[str, Any]], Any]


@dataclass(frozen=True)
class Prepared:
    """A stream that can be started.

    Attributes:
        writer: Its DataStreamWriter, with name and checkpoint.
        sink: Name of its sink, as telemetry has it (:mod:`millrace.runtime.telemetry.lineage`); None if the writer does
            not show a path.
    """

    writer: Any
    sink: str | None


def load(script: Path) -> StreamFunction:
    """Return the function of a script.

    Raises:
        MillraceError: If the script cannot be imported or has no such function.
    """
    from pyspark.cloudpickle import register_pickle_by_value

    signature = f"a Python file with a function {FUNCTION}(spark, name, options)"
    spec = importlib.util.spec_from_file_location(MODULE, script.resolve()) if script.suffix == ".py" else None
    if spec is None or spec.loader is None or not script.is_file():
        raise MillraceError("fleet.script", str(script), signature, "Create the file or correct the path.")
    sys.path.insert(0, str(script.resolve().parent))
    module = sys.modules[MODULE] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise MillraceError("fleet.script", str(script), signature, f"Importing it failed: {reason(error)}") from error
    register_pickle_by_value(module)  # Python workers cannot import it by this name
    function = getattr(module, FUNCTION, None)
    if not callable(function):
        raise MillraceError("fleet.script", str(script), signature, f"Define {FUNCTION} in it.")
    return function  # type: ignore[no-any-return]


def prepare(function: StreamFunction, spark: Any, name: str, options: Mapping[str, Any], checkpoint: str) -> Prepared:
    """Call a user's function for one stream, and set the query's name and checkpoint.

    Raises:
        MillraceError: If it does not return a DataStreamWriter that Millrace can start on this checkpoint.
        Exception: What the function raises.
    """
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    writer = function(spark, name, dict(options))
    if not isinstance(writer, DataStreamWriter):
        if isinstance(writer, StreamingQuery):
            writer.stop()
        allowed = "a DataStreamWriter that is not started yet"
        remedy = "Return df.writeStream with its format, options and trigger, without start() or toTable()."
        raise MillraceError(f"{FUNCTION}()", type(writer).__name__, allowed, remedy)
    own = writer_option(writer, CHECKPOINT)
    if own is not None and name_of(spark, own) != name_of(spark, checkpoint):
        remedy = f"Leave {CHECKPOINT} out: each stream of a fleet has a folder below fleet.checkpoints."
        raise MillraceError(CHECKPOINT, own, checkpoint, remedy)
    path = writer_option(writer, "path")
    writer = writer.queryName(name).option(CHECKPOINT, checkpoint)
    return Prepared(writer, None if path is None else name_of(spark, path))


def name_of(spark: Any, path: str) -> str:
    """Return the name of a path, the same for all ways to write it."""
    return lineage.path(str(qualified(spark, path).toString()))
