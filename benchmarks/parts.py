"""Benchmarks of several parts that are measured one by one, or all together."""

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
    """What is measured at a time.

    Attributes:
        scenario: One of those that its records are of: with a figure of it, the part has been measured.
        records: Measures it, given ``quick`` and the number of the first run; one that draws nothing ignores that.
        without_rivals: Measures no rivals but those that targets need, where that is less.
    """

    scenario: str
    records: Measurement
    without_rivals: Measurement | None = None


def undrawn(records: Callable[[bool], Iterator[Record]]) -> Measurement:
    """Return the same for a part whose runs are the same for every seed."""
    return lambda quick, _: records(quick)


def measure(
    parts: Mapping[str, Part], wanted: Collection[str], quick: bool, seed: int, rivals: bool = True
) -> list[Record]:
    """Return the records of some parts.

    Args:
        parts: All, by name.
        wanted: Names of those that are measured.
        quick: Fewer repetitions.
        seed: Other runs for another seed.
        rivals: Without them, only what targets need is measured.
    """
    records: list[Record] = []
    for name, part in parts.items():
        if name in wanted:
            with step(name), one_thread():
                measurement = part.records if rivals else part.without_rivals or part.records
                records += measurement(quick, first_run(seed))
    return records


def scenarios(parts: Mapping[str, Part]) -> Mapping[str, str]:
    """Return a benchmark's ``SCENARIOS``: names of parts, each with a scenario of its records."""
    return {name: part.scenario for name, part in parts.items()}
