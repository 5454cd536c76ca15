from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.conttune.cases import made
from benchmarks.conttune.wrapped import Planned, Rested, Timed
from benchmarks.simulation.plant import SimulatedPlant
from millrace.model.decision import Proposal
from millrace.model.deployment import Change, Deployment
from millrace.model.protocols import Cursor
from millrace.model.signals import Signals


class Always:
    """Wants a change in every evaluation and keeps its input."""

    def __init__(self, *changes: Change) -> None:
        self.told: list[Signals] = []
        self.changes = changes or (Change("job", "slots", 1, 2),)

    def propose(self, signals: Signals, current: Deployment, memory: Any) -> tuple[Proposal, Any]:
        self.told.append(signals)
        return Proposal("always", self.changes, "why", "Because."), {"looks": memory.get("looks", 0) + 1}


@pytest.fixture
def period() -> tuple[Signals, Deployment]:
    plant = SimulatedPlant(made("paper_mb", 0), 0)
    return plant.observe(Cursor()), plant.deployment


def at(signals: Signals, rate: float, pressed: float = 0.0) -> Signals:
    (app,) = signals.apps
    return replace(signals, apps=(replace(app, arrival_rows_per_s=rate, backpressured_ratio=pressed),))


def test_planned_when_it_plans_then_passes_only_a_lower_target(period: tuple[Signals, Deployment]) -> None:
    signals, current = period
    inner = Always()
    Planned(inner, 0.9).propose(signals, current, {})
    (told,) = inner.told
    assert told.objective.target_utilisation == pytest.approx(0.9 * signals.objective.target_utilisation)
    assert replace(told, objective=signals.objective) == signals


def test_timed_when_an_evaluation_changes_nothing_then_its_time_does_not_count(
    period: tuple[Signals, Deployment],
) -> None:
    signals, current = period
    deciding, holding = Timed(Always()), Timed(Always())
    holding.inner.changes = ()  # type: ignore[attr-defined]
    for timed in (deciding, holding):
        timed.propose(signals, current, {})
    assert len(deciding.decisions_ms) == 1 and deciding.decisions_ms[0] >= 0
    assert not holding.decisions_ms


@pytest.mark.parametrize(
    ("rate", "pressed", "asked"),
    [(100.0, 0.0, False), (104.0, 0.0, False), (100.0, 0.2, True), (120.0, 0.0, True), (80.0, 0.0, True)],
)
def test_rested_when_a_step_was_made_then_asks_again_only_if_it_fails_or_the_load_moves(
    period: tuple[Signals, Deployment], rate: float, pressed: float, asked: bool
) -> None:
    signals, current = period
    inner = Always()
    rested = Rested(inner)
    _, memory = rested.propose(at(signals, 100.0), current, {})
    proposal, memory = rested.propose(at(signals, rate, pressed), current, memory)
    assert (len(inner.told) == 2) == asked == bool(proposal.changes)
    assert memory["inner"]["looks"] == len(inner.told)
