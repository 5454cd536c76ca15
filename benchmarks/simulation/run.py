"""Let an optimizer drive a simulated plant until its workload ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.scenario import Scenario
from benchmarks.simulation.segment import Segment
from benchmarks.simulation.truth import Levels, Rates
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Change
from millrace.model.errors import NotReady
from millrace.model.protocols import Cursor, Optimizer
from millrace.model.signals import Signals


@dataclass(frozen=True)
class Step:
    """An evaluation with a decision.

    Attributes:
        at_s: Time, seconds.
        rates: Arrival rate of each source up to then, rows per second.
        before: p of each unit.
        after: The new p of each unit; equal to ``before`` if nothing was changed.
        adequate: Whether the true abilities of ``after`` are sufficient for the rates.
        ended_s: When ``after`` was running; ``at_s`` if nothing was changed.
        proposal: The optimizer's proposal.
        refused: Changes that broke the bounds or assumed another value, and were not made.
        signals: The optimizer's input; None unless kept.
    """

    at_s: float
    rates: Rates
    before: Levels
    after: Levels
    adequate: bool
    ended_s: float
    proposal: Proposal
    refused: tuple[Change, ...] = ()
    signals: Signals | None = None

    @property
    def reconfigures(self) -> bool:
        """Whether something was changed."""
        return self.after != self.before


@dataclass(frozen=True)
class Run:
    """A case that has been driven to its end.

    Attributes:
        scenario: The case.
        steps: Its evaluations.
        segments: The true history.
    """

    scenario: Scenario
    steps: tuple[Step, ...]
    segments: tuple[Segment, ...]


def drive(plant: SimulatedPlant, optimizer: Optimizer, *, keep_signals: bool = False) -> Run:
    """Let an optimizer decide at every evaluation until the workload ends.

    Changes beyond the bounds, or from a value that is not set, are refused like in the loop's guards. The other changes
    of the same proposal are made.

    Args:
        plant: A new plant.
        optimizer: The optimizer.
        keep_signals: Keep each step's signals, which takes many times the memory.
    """
    steps, cursor = [], Cursor()
    memory: Memory = {}
    while not plant.finished:
        try:
            signals = plant.observe(cursor)
        except NotReady:
            continue
        cursor = Cursor(signals.telemetry_version, signals.until)
        proposal, memory = optimizer.propose(signals, plant.deployment, memory)
        steps.append(_step(plant, proposal, signals, keep_signals))
    return Run(plant.scenario, tuple(steps), tuple(plant.segments))


def _step(plant: SimulatedPlant, proposal: Proposal, signals: Signals, keep: bool) -> Step:
    at_s, before, (rates, factors) = plant.now, plant.wanted, plant.present
    made: list[Change] = []
    refused: list[Change] = []
    ended_s = at_s
    for change in proposal.changes:
        (made if _fits(plant, change) else refused).append(change)
    if made and not plant.finished:
        target = plant.deployment.with_changes(tuple(made))
        done = plant.apply(replace(target, version=target.version + 1, author="decision"))
        ended_s += sum((r.ended - r.started).total_seconds() for r in done if r.ended is not None)
    return Step(
        at_s=at_s,
        rates=rates,
        before=before,
        after=plant.wanted,
        adequate=plant.truth.adequate(plant.wanted, rates, factors),
        ended_s=ended_s,
        proposal=proposal,
        refused=tuple(refused),
        signals=signals if keep else None,
    )


def _fits(plant: SimulatedPlant, change: Change) -> bool:
    app, bounds = plant.deployment.apps.get(change.app), plant.scenario.bounds
    if app is None or change.field != plant.scenario.sizes_by:
        return False
    return app.value(change) == change.before and change.value in bounds
