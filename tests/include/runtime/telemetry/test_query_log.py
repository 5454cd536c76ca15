"""What a query's own log says of its sources."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.runtime.telemetry.query_log import sources_after


@dataclass(frozen=True)
class Stream:
    """A proxy of a JVM object: two proxies of one object are equal."""

    id: int
    name: str

    def toString(self) -> str:  # noqa: N802 - Java's name
        return self.name


def seq(*items: Any) -> Any:
    return SimpleNamespace(size=lambda: len(items), apply=lambda n: items[n])


def offset(json: str | None) -> Any:
    return SimpleNamespace(isDefined=lambda: json is not None, get=lambda: SimpleNamespace(json=lambda: json))


def query(streams: list[Stream], ends: list[str | None]) -> Any:
    logged = SimpleNamespace(offsets=lambda: seq(*map(offset, ends)))
    log = SimpleNamespace(get=lambda number: SimpleNamespace(get=lambda: logged))
    return SimpleNamespace(sources=lambda: seq(*streams), offsetLog=lambda: log)


A, B = Stream(1, "Delta[a]"), Stream(2, "Delta[b]")


@pytest.mark.parametrize(("number", "ends"), [(3, [{"at": 7}, 5]), (-1, [None, None])])
def test_stream_that_a_query_reads_twice_is_one_source(number: int, ends: list[object]) -> None:
    found = sources_after(query([A, Stream(1, "Delta[a]"), B], ['{"at": 7}', '{"at": 7}', "5"]), number)
    assert found == [{"description": n, "endOffset": e} for n, e in zip(("Delta[a]", "Delta[b]"), ends, strict=True)]


def test_two_streams_of_one_table_are_two_sources() -> None:
    found = sources_after(query([A, Stream(3, "Delta[a]")], ["7", None]), 0)
    assert found == [{"description": "Delta[a]", "endOffset": 7}, {"description": "Delta[a]", "endOffset": None}]
