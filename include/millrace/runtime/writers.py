"""What a query's writer was given, and what Spark makes of a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def writer_option(writer: Any, key: str) -> str | None:
    """Return an option of a DataStreamWriter; None if it is not set.

    Spark internals, covered by a test: only reflection can read a writer's own options.
    """
    field = writer._jwrite.getClass().getDeclaredField("extraOptions")
    field.setAccessible(True)
    value = field.get(writer._jwrite).get(key)
    return str(value.get()) if value.isDefined() else None


def qualified(spark: Any, path: str) -> Any:
    """Return a Hadoop path with the scheme, host and folder that the session adds."""
    context = spark.sparkContext
    hadoop = context._jvm.org.apache.hadoop.fs.Path(path)
    return hadoop.getFileSystem(context._jsc.hadoopConfiguration()).makeQualified(hadoop)


def local_folder(spark: Any, path: str) -> Path | None:
    """Return the folder that a path names; None if it is not on this machine's file systems."""
    uri = qualified(spark, path).toUri()
    return Path(str(uri.getPath())) if uri.getScheme() == "file" else None
