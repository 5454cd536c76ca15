"""What admission keeps between looks, as a JSON value: where streams enter, and all that the outlook has seen.

Its size is bounded by the streams of the last ``quiet`` periods times the periods of history that are kept. Rates are
rows a period, so that most numbers are whole and short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from include.model.admission import TAKEN_IN
from include.model.decision import Memory
from optimizers.drfm.advice.foreseen import Foreseen
from optimizers.drfm.outlook import Snapshot
from optimizers.drfm.problem import NEW, Floats, Ints


@dataclass(frozen=True)
class Kept:
    """What is known when a look begins.

    Attributes:
        period_s: Length of a period, seconds.
        since: Number of the first period that was not taken in.
        node: Node of each stream of the outlook, shape (S,).
        seen: Number of the last period in which each brought a row, shape (S,).
        outlook: What is expected of the streams.
        foreseen: How good forecasts were.
    """

    period_s: int
    since: int
    node: Ints
    seen: Ints
    outlook: Snapshot
    foreseen: Foreseen

    def entering(self, nodes: Mapping[str, int]) -> Kept:
        """Return the same with each stream at another node, that of one without any being NEW."""
        found = [nodes.get(stream, NEW) for stream in self.outlook.streams]
        return replace(self, node=np.array(found, dtype=np.intp))


def write(kept: Kept) -> Memory:
    """Return what is kept as a JSON value."""
    outlook = kept.outlook
    return {
        "period_s": kept.period_s,
        TAKEN_IN: datetime.fromtimestamp(kept.since * kept.period_s, UTC).isoformat(),
        "streams": list(outlook.streams),
        "node": kept.node.tolist(),
        "seen": kept.seen.tolist(),
        "foreseen": {name: list(column) for name, column in asdict(kept.foreseen).items()},
        "columns": {name: _numbers(column) for name, column in outlook.columns.items()},
    }


def read(memory: Memory) -> Kept | None:
    """Return what was kept; None for a memory that is empty, or of another making."""
    try:
        named, period_s = memory["streams"], memory["period_s"]
        streams = tuple(named)
        since = round(datetime.fromisoformat(memory[TAKEN_IN]).timestamp() / period_s)
        columns = _columns(memory["columns"], len(streams))
        node, seen = (np.array(memory[name], dtype=np.intp) for name in ("node", "seen"))
        foreseen = _foreseen(memory["foreseen"])
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None
    sound = (
        isinstance(named, list) and all(isinstance(name, str) for name in streams) and len(set(streams)) == len(streams)
    )
    fits = node.shape == seen.shape == (len(streams),) and bool((node >= 0).all())
    if not (sound and fits and isinstance(period_s, int)):
        return None
    return Kept(period_s, since, node, seen, Snapshot(since - 1, streams, columns), foreseen)


def nodes(kept: Kept | None) -> Mapping[str, int]:
    """Return the node of each stream that has one."""
    if kept is None:
        return {}
    return {name: node for name, node in zip(kept.outlook.streams, kept.node.tolist(), strict=True) if node > NEW}


def _numbers(column: Floats) -> Any:
    """Return an array as lists, whole numbers without a fraction, and None for what is not known."""
    if column.ndim > 1:
        return [_numbers(row) for row in column]
    return [None if v != v else int(v) if v.is_integer() else v for v in column.tolist()]


def _foreseen(lists: Mapping[str, Sequence[float]]) -> Foreseen:
    columns = {name: tuple(float(v) for v in lists[name]) for name in ("forecast", "came", "off")}
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError("columns of unequal length")
    return Foreseen(**columns)


def _columns(lists: Mapping[str, Any], streams: int) -> Mapping[str, Floats]:
    found = {name: np.array(values, dtype=np.float64) for name, values in lists.items()}
    # a matrix without rows is an empty list, whatever the number of its columns
    return {name: c.reshape(0, streams) if name == "history" and c.ndim == 1 else c for name, c in found.items()}
