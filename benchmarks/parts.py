"""Benchmarks with several parts that are measured separately or together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.record import Record
from benchmarks.seeds import first_run
from benchmarks.threads import one_thread
from millrace.local.stack.progress import step

Measurement = Callable[[bool, int], Iterator[Record]]


@dataclass(frozen=True)
class Part:
    """A part of a benchmark.

    Attributes:
        scenario: One of the scenarios in its records: if it has a figure, the part has been measured.
        records: Measures it, given ``quick`` and the number of the first run; a part without random draws ignores the
            number.
        without_rivals: Measures only the rivals that targets need, if that is fewer.
    """

    scenario: str
    records: Measurement
    without_rivals: Measurement | None = None


def undrawn(records: Callable[[bool], Iterator[Record]]) -> Measurement:
    """Wrap a part whose runs are the same for every seed."""
    return lambda quick, _: records(quick)


def measure(
    parts: Mapping[str, Part], wanted: Collection[str], quick: bool, seed: int, rivals: bool = True
) -> list[Record]:
    """Return the records of some parts.

    Args:
        parts: All, by name.
        wanted: Names of the parts to measure.
        quick: Fewer repetitions.
        seed: Another seed gives other runs.
        rivals: If false, measure only what the targets need.
    """
    records: list[Record] = []
    for name, part in parts.items():
        if name in wanted:
            with step(name), one_thread():
                measurement = part.records if rivals else part.without_rivals or part.records
                records += measurement(quick, first_run(seed))
    return records


def scenarios(parts: Mapping[str, Part]) -> Mapping[str, str]:
    """Return a benchmark's ``SCENARIOS``: names of parts, each with one scenario of its records."""
    return {name: part.scenario for name, part in parts.items()}
