"""The form of a simulated job: its operators and sources, and how rows flow between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from benchmarks.simulation.noise import Window
from millrace.model.errors import MillraceError


@dataclass(frozen=True)
class Vertex:
    """An operator.

    Attributes:
        id: Its id.
        levels: Range of the slots that it takes at the peak rate; a run draws from it. A source has no slots to set.
        window: How unevenly it emits; None if its output follows its input.
    """

    id: str
    levels: tuple[float, float] = (4.0, 14.0)
    window: Window | None = None


@dataclass(frozen=True)
class Link:
    """A stream between two operators: ``ratio`` rows arrive per input row of the producer, > 0."""

    producer: str
    consumer: str
    ratio: float = 1.0


@dataclass(frozen=True)
class Shape:
    """A DAG.

    Attributes:
        name: Its name; also the app's.
        vertices: Its operators, sources included.
        links: Its streams.
        units: Unit rate Wu of each source by its id, rows per second, > 0.

    Raises:
        MillraceError: If it is not a DAG, refers to something that does not exist, a source has an input or no
            consumer, another operator has no input, or a ratio or unit rate is not above 0.
    """

    name: str
    vertices: tuple[Vertex, ...]
    links: tuple[Link, ...]
    units: Mapping[str, float]

    def __post_init__(self) -> None:
        """Reject invalid jobs."""
        known, fed = {v.id for v in self.vertices}, {link.consumer for link in self.links}
        feeding = {link.producer for link in self.links}
        named = fed | feeding | set(self.units)
        if len(known) < len(self.vertices):
            raise self._wrong("an id of each operator's own", "Rename one.")
        if named - known:
            raise self._wrong(f"only links between operators, not {sorted(named - known)}", "Name what exists.")
        if fed & set(self.units) or known - fed - set(self.units):
            raise self._wrong("inputs for every operator that is no source", "Link it, or give it a unit rate.")
        if set(self.units) - feeding:
            raise self._wrong("a consumer of every source", "Link the source.")
        if not all(link.ratio > 0 for link in self.links) or not all(unit > 0 for unit in self.units.values()):
            raise self._wrong("ratios and unit rates above 0", "Leave out a link that passes nothing.")
        try:
            self.order  # noqa: B018 - a cycle shows here
        except CycleError as error:
            raise self._wrong("no cycle", "Remove a link.") from error

    def _wrong(self, allowed: str, remedy: str) -> MillraceError:
        return MillraceError("shape", self.name, allowed, remedy)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Ids in topological order, sources first; ties keep the given order."""
        sorter: TopologicalSorter[str] = TopologicalSorter({v.id: () for v in self.vertices})
        for link in self.links:
            sorter.add(link.consumer, link.producer)
        return (*self.sources, *(name for name in sorter.static_order() if name not in self.units))

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Ids of the sources in the order of their unit rates."""
        return tuple(self.units)

    @cached_property
    def sizable(self) -> tuple[str, ...]:
        """Ids of the operators that have their own p, in topological order: all but the sources."""
        return tuple(name for name in self.order if name not in self.units)

    @cached_property
    def vertex(self) -> Mapping[str, Vertex]:
        """Operators by id."""
        return {v.id: v for v in self.vertices}

    @cached_property
    def gains(self) -> tuple[tuple[float, ...], ...]:
        """Rows that reach each sizable operator per row emitted by each source, shape (sizable, sources)."""
        found = {s: tuple(float(s == t) for t in self.sources) for s in self.sources}
        for name in self.sizable:
            into = [link for link in self.links if link.consumer == name]
            found[name] = tuple(
                sum(link.ratio * found[link.producer][s] for link in into) for s in range(len(self.sources))
            )
        return tuple(found[name] for name in self.sizable)
