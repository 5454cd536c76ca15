"""esj in the control loop: how many workers a join has, what it sheds, and how large its blocks are."""

from __future__ import annotations

from dataclasses import replace

from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Deployment
from millrace.model.join import JoinSettings, JoinSignals
from millrace.model.signals import Signals
from millrace.optimizers.api import MillraceError
from millrace.optimizers.esj.evaluation import JoinEvaluation, choose_settings
from millrace.optimizers.esj.load import check_figures, measure_load, missing_figure
from millrace.optimizers.esj.options import JoinPolicy
from millrace.optimizers.esj.timers import ThresholdTimers, update_timers
from millrace.optimizers.esj.workers import RaisedSlots, choose_slots, choose_workers, most_workers

NAME = "esj"
NO_JOIN, STOPPED, UNMEASURED, BAD_SIGNALS = "no_join", "join_stopped", "join_unmeasured", "bad_signals"
STAY = "No change of workers, block size and shed ratio"


class Esj:
    """Adapts a stream join to its load.

    Args:
        options: The spec's section ``join``: the policy, its bounds, and what is known about the join in advance.
    """

    Options = JoinPolicy

    def __init__(self, options: JoinPolicy) -> None:
        self.policy = options

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Propose the join's settings with reasons, and remember for how long thresholds have been crossed."""
        measured, join = signals.join, current.join
        if join is None:
            return _hold(NO_JOIN, ""), memory
        timers, raised = ThresholdTimers.read(memory), RaisedSlots.read(memory)
        after_gap = _memory(timers.after_gap() if timers else None, raised)
        app = next((a.app for a in signals.apps if a.app in current.apps), None)
        if app is None or not current.running:
            return _hold(STOPPED, f"{STAY}: the join's app is not running."), after_gap
        if measured is None:
            return _hold(UNMEASURED, ""), after_gap
        problem = self._problem(measured)
        if problem is not None:
            return problem, after_gap
        slots = current.apps[app].slots
        evaluation, raised = self._evaluate(signals, measured, join, slots, timers, raised)
        proposal = Proposal(
            NAME,
            evaluation.changes(app),
            evaluation.reason,
            evaluation.sentence,
            predicted={
                "join_offered_tuples": evaluation.load.tuples,
                "join_utilisation_ratio": evaluation.utilisation,
                "join_shed_ratio": evaluation.after.shed,
            },
        )
        return proposal, _memory(evaluation.timers, raised)

    def _problem(self, measured: JoinSignals) -> Proposal | None:
        """Return why the measurements allow no decision; None if they do."""
        try:
            check_figures(measured)
        except MillraceError as error:
            return _hold(BAD_SIGNALS, f"{STAY}: {error}")
        missing = missing_figure(measured, self.policy.options)
        return None if missing is None else _hold(UNMEASURED, f"{STAY}: the telemetry does not show {missing}.")

    def _evaluate(
        self,
        signals: Signals,
        measured: JoinSignals,
        join: JoinSettings,
        slots: int,
        timers: ThresholdTimers | None,
        raised: RaisedSlots | None,
    ) -> tuple[JoinEvaluation, RaisedSlots | None]:
        options, capacity = self.policy.options, measured.capacity
        load = measure_load(measured, options)
        timers = update_timers(signals.until.timestamp(), measured, load.tuples, options, timers)
        # workers that are not in force yet do not show whether they are enough
        most = most_workers(self.policy, measured.partitions)
        is_moving = signals.settling or measured.workers != min(join.workers, measured.partitions or join.workers)
        workers = join.workers if is_moving else choose_workers(timers, load.tuples, capacity, self.policy, most)
        coming = min(workers, measured.partitions or workers)
        slots_after = slots
        if not signals.settling:
            slots_after, raised = choose_slots(coming, slots, signals.bounds, raised)
        after = replace(choose_settings(load, join, coming, measured.workers, capacity, options), workers=workers)
        evaluation = JoinEvaluation(
            self.policy,
            capacity,
            load,
            timers,
            is_moving,
            join,
            after,
            most=most,
            slots_before=slots,
            slots_after=slots_after,
        )
        return evaluation, raised


def _hold(reason: str, sentence: str) -> Proposal:
    return Proposal(NAME, (), reason, sentence)


def _memory(timers: ThresholdTimers | None, raised: RaisedSlots | None) -> Memory:
    return {**(timers.to_json() if timers else {}), **(raised.to_json() if raised else {})}
