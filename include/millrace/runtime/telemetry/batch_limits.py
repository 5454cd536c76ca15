"""Which options of its sources limit the batches of a running query.

Spark and Delta internals: pinned to their versions, covered by tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]

from millrace.model.batch_limits import MAX_BYTES, MAX_FILES, MAX_OFFSETS
from millrace.runtime.telemetry.sources.limited import CONNECTOR


def limits_in_force(query: Any, gateway: Any) -> dict[str, int]:
    """Return the options that limit a query's batches, with their values; without those in which sources differ.

    Args:
        query: Spark's own query, ``StreamExecution``, that has planned a batch.
        gateway: Py4J's gateway of the session.
    """
    sources = query.sources()
    values: dict[str, set[int]] = {}
    for stream in (sources.apply(n) for n in range(sources.size())):
        for option, value in _limits(stream, gateway):
            values.setdefault(option, set()).add(value)
    return {option: of_option.pop() for option, of_option in sorted(values.items()) if len(of_option) == 1}


def _limits(stream: Any, gateway: Any) -> Iterator[tuple[str, int]]:
    name = str(stream.getClass().getSimpleName())
    if name == "DeltaSource":  # its limit also shows the 1,000 files that no script asked for
        options = stream.options()
        for option, given in ((MAX_FILES, options.maxFilesPerTrigger()), (MAX_BYTES, options.maxBytesPerTrigger())):
            if given.isDefined():
                yield option, int(given.get())
    elif is_instance_of(gateway, stream, f"{CONNECTOR}.SupportsAdmissionControl"):
        yield from _of_limit(stream.getDefaultReadLimit(), in_rows="Kafka" in name)


def _of_limit(limit: Any, *, in_rows: bool) -> Iterator[tuple[str, int]]:
    match str(limit.getClass().getSimpleName()):
        case "ReadMaxFiles":
            yield MAX_FILES, int(limit.maxFiles())
        case "ReadMaxBytes":
            yield MAX_BYTES, int(limit.maxBytes())
        case "ReadMaxRows" if in_rows:
            yield MAX_OFFSETS, int(limit.maxRows())
        case "CompositeReadLimit":
            for part in limit.getReadLimits():
                yield from _of_limit(part, in_rows=in_rows)
