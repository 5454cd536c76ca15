"""What ContTune keeps between looks, as a JSON value: the paper's p_max and phase, and the fixed cost by level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from include.contracts.decision import Memory
from include.contracts.signals import Capacity

IDLE, BIG = "idle", "big"


@dataclass(frozen=True)
class Notes:
    """Of one operator.

    Attributes:
        p_max: Highest level the Big phase has set; 0 before any.
        phase: ``big`` while a tuning is in its Big phase, else ``idle``.
        rate: lambda of the last look, rows a second; None before any.
        waited: True if the last look let a step wait because its period was half old.
        fixed_s: o(p) by level, the most recent ones, seconds: observations hold the processing ability only.
    """

    p_max: int = 0
    phase: str = IDLE
    rate: float | None = None
    waited: bool = False
    fixed_s: Mapping[int, tuple[float, ...]] = field(default_factory=dict)

    def with_fixed(self, capacity: Capacity | None, top_k: int) -> Notes:
        """Return the notes with the present fixed cost added, the last ``top_k`` of each level kept."""
        if capacity is None:
            return self
        recent = (*self.fixed_s.get(capacity.parallelism, ()), capacity.fixed_s)[-top_k:]
        return replace(self, fixed_s={**self.fixed_s, capacity.parallelism: recent})


def read(memory: Memory) -> Mapping[str, Notes]:
    """Return the notes by operator; what cannot be understood is as if never written."""
    stored = memory.get("operators")
    if not isinstance(stored, Mapping):
        return {}
    return {str(name): _notes(value) for name, value in stored.items() if isinstance(value, Mapping)}


def write(notes: Mapping[str, Notes]) -> Memory:
    """Return the notes as a JSON value."""
    return {
        "operators": {
            name: {
                "p_max": note.p_max,
                "phase": note.phase,
                "rate": note.rate,
                "waited": note.waited,
                "fixed_s": {str(p): list(values) for p, values in sorted(note.fixed_s.items())},
            }
            for name, note in sorted(notes.items())
        }
    }


def _notes(value: Mapping[str, Any]) -> Notes:
    p_max, phase, fixed = value.get("p_max"), value.get("phase"), value.get("fixed_s")
    levels = fixed.items() if isinstance(fixed, Mapping) else ()
    return Notes(
        p_max=p_max if isinstance(p_max, int) and p_max > 0 else 0,
        phase=BIG if phase == BIG else IDLE,
        rate=next(iter(_numbers([value.get("rate")])), None),
        waited=value.get("waited") is True,
        fixed_s={
            int(p): kept
            for p, values in levels
            if str(p).isdigit() and isinstance(values, list | tuple) and (kept := _numbers(values))
        },
    )


def _numbers(values: list[Any] | tuple[Any, ...]) -> tuple[float, ...]:
    return tuple(float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool) and v >= 0)
