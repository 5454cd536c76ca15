"""What ContTune keeps of a job between looks, as a JSON value: the paper's p_max and phase, its last step, flows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizers.conttune import rest
from optimizers.conttune.paper.flows import Ratio, Ratios
from optimizers.conttune.stored import items, number, whole

IDLE, BIG = "idle", "big"


@dataclass(frozen=True)
class Notes:
    """Of one job.

    Attributes:
        p_max: Highest level the Big phase has set; 0 before any.
        phase: ``big`` while a tuning is in its Big phase, else ``idle``.
        step: The last own step; None before any.
        ratios: Running means of the flow ratios by edge.
    """

    p_max: int = 0
    phase: str = IDLE
    step: rest.Step | None = None
    ratios: Ratios = field(default_factory=dict)


def read(stored: Mapping[str, Any]) -> Notes:
    """Return the notes of a job; what cannot be understood is as if never written."""
    return Notes(
        p_max=whole(stored.get("p_max")),
        phase=BIG if stored.get("phase") == BIG else IDLE,
        step=rest.read(stored.get("step")),
        ratios=dict(ratio for value in items(stored.get("ratios")) if (ratio := _ratio(value)) is not None),
    )


def write(notes: Notes) -> Mapping[str, Any]:
    """Return the notes as a JSON value."""
    return {
        "p_max": notes.p_max,
        "phase": notes.phase,
        "step": rest.written(notes.step),
        "ratios": [[*edge, ratio.mean, ratio.looks] for edge, ratio in sorted(notes.ratios.items())],
    }


def _ratio(value: object) -> tuple[tuple[str, str], Ratio] | None:
    match items(value):
        case (str(producer), str(consumer), mean, looks) if (found := number(mean, 0.0)) is not None:
            return (producer, consumer), Ratio(found, whole(looks))
    return None
