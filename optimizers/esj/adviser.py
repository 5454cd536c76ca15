"""esj in the loop: how many workers a join has, what it sheds, and how large its blocks are."""

from __future__ import annotations

from include.model.decision import Memory, Proposal
from include.model.deployment import Deployment
from include.model.errors import MillraceError
from include.model.join import ADVISER, JoinSettings, JoinSignals
from include.model.signals import Signals
from optimizers.esj import lasting, slots
from optimizers.esj.choice import chosen
from optimizers.esj.load import checked, load, missing
from optimizers.esj.look import Look
from optimizers.esj.options import Setting
from optimizers.esj.scaling import wanted
from optimizers.esj.words import sentence

NO_JOIN, STOPPED, UNMEASURED, BAD_SIGNALS = "no_join", "join_stopped", "join_unmeasured", "bad_signals"
Remembered = tuple[lasting.Lasting | None, slots.Raised | None]
STAY = "Workers, block size and shed ratio stay"


class Adviser:
    """Adapts a stream join to its load.

    Args:
        setting: The policy, its bounds, and what is known of the join beforehand.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Say how the join should be set and why, and remember what has lasted."""
        seen, join = signals.join, current.join
        if join is None:
            return Proposal(ADVISER, (), NO_JOIN, ""), memory
        before, raised = lasting.read(memory), slots.read(memory)
        app = next((measured.app for measured in signals.apps if measured.app in current.apps), None)
        unknown = {**lasting.write(lasting.interrupted(before)), **slots.write(raised)}
        if app is None or not current.running:
            return Proposal(ADVISER, (), STOPPED, f"{STAY}: the join's app does not run."), unknown
        if seen is None:
            return Proposal(ADVISER, (), UNMEASURED, ""), unknown
        problem = self._problem(seen)
        if problem is not None:
            return problem, unknown
        look = self._look(signals, seen, current.apps[app].slots, join, (before, raised))
        predicted = {
            "join_offered_tuples": look.load.tuples,
            "join_utilisation_ratio": look.utilisation,
            "join_shed_ratio": look.after.shed,
        }
        told = Proposal(ADVISER, look.changes(app), look.reason, sentence(look), predicted)
        return told, {**lasting.write(look.lasting), **slots.write(look.raised)}

    def _problem(self, seen: JoinSignals) -> Proposal | None:
        """Return why what was measured decides nothing; None if it does."""
        try:
            checked(seen)
        except MillraceError as error:
            return Proposal(ADVISER, (), BAD_SIGNALS, f"{STAY}: {error}")
        lost = missing(seen, self.setting.options)
        return (
            None if lost is None else Proposal(ADVISER, (), UNMEASURED, f"{STAY}: the telemetry does not tell {lost}.")
        )

    def _look(self, signals: Signals, seen: JoinSignals, cores: int, join: JoinSettings, memory: Remembered) -> Look:
        options, (before, raised) = self.setting.options, memory
        found = load(seen, options)
        now = lasting.until(signals.until.timestamp(), seen, found.tuples, options.thresholds, before)
        # workers that are not in force yet do not show whether they are enough
        moving = signals.settling or seen.workers != join.workers
        workers = join.workers if moving else wanted(now, found.tuples, seen.capacity, self.setting)
        wanted_cores = cores
        if not signals.settling:
            wanted_cores, raised = slots.slots_for(workers, cores, signals.bounds, raised)
        after = chosen(found, join, workers, seen.workers, seen.capacity, options)
        return Look(self.setting, seen.capacity, found, now, moving, join, after, (cores, wanted_cores), raised)
