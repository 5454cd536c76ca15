"""Counted streams, as a profile reports them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from millrace.model.admission import StreamCounts
from millrace.model.decision import Memory, Proposal
from millrace.model.signals import Signals
from millrace.optimizers.conformance.builders import app_signals, deployment, signals
from millrace.optimizers.registry import Role, create

HOUR_S = 3600
MIDNIGHT = datetime(2013, 1, 1, tzinfo=UTC)


def counts(rows: Mapping[str, Sequence[int | None]], first: int = 0, version: int = 1) -> StreamCounts:
    """Rows of each stream by hour, from the hour ``first`` of the first day on; 0 if nothing was counted."""
    names = tuple(sorted(rows))
    hours = max((len(of) for of in rows.values()), default=0)
    told = [(t, i, rows[name][t]) for t in range(hours) for i, name in enumerate(names) if rows[name][t] != 0]
    return StreamCounts(
        version=version,
        since=MIDNIGHT + timedelta(hours=first),
        until=MIDNIGHT + timedelta(hours=first + hours),
        period_s=HOUR_S,
        stream=names,
        period=tuple(t for t, _, _ in told),
        index=tuple(i for _, i, _ in told),
        rows=tuple(n for _, _, n in told),
    )


def look(measured: StreamCounts | None) -> Signals:
    return replace(signals(app_signals(2, 100.0, None)), streams=measured)


def advised(
    measured: StreamCounts | None, memory: Memory | None = None, capacity: float = 1.0, **section: Any
) -> tuple[Proposal, Memory]:
    """The advice if a node takes ``capacity`` rows per second, or 3600 times that per hour."""
    optimizer = create("drfm", {"capacity": capacity, **section}, Role.ADMISSION)
    return optimizer.propose(look(measured), deployment(2), {} if memory is None else memory)


@st.composite
def histories(draw: st.DrawFn, hours: int = 12, streams: int = 5, most: int = 3000) -> dict[str, list[int]]:
    """Rows of some streams by hour; some hours bring nothing."""
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=streams, unique=True))
    of = st.lists(st.just(0) | st.integers(1, most), min_size=hours, max_size=hours)
    return {name: draw(of) for name in names}
