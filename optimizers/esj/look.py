"""One look at a join: what was measured, what has lasted, and how the join is to be set."""

from __future__ import annotations

from dataclasses import dataclass

from include.model.deployment import JOIN_FIELDS, SLOTS, Change
from include.model.join import JoinSettings
from optimizers.esj.lasting import Lasting
from optimizers.esj.load import Load
from optimizers.esj.options import Setting
from optimizers.esj.scaling import overloaded
from optimizers.esj.slots import Raised

OVERLOADED, EXHAUSTED, OVERSIZED = "join_overloaded", "join_exhausted", "join_oversized"
STARTS, TOO_MANY, CHANGING = "join_starts", "join_beyond_bounds", "join_changing"
SHEDS, FITS = "join_sheds", "join_fits"


@dataclass(frozen=True)
class Look:
    """A look.

    Attributes:
        setting: The policy.
        capacity: W, tuples.
        load: What was measured.
        lasting: What has lasted.
        moving: Whether the last change of workers is not in force or not verified yet.
        before: How the join is set.
        after: How it is to be set.
        slots: Cores of its app before and after.
        raised: What is to be remembered of them.
    """

    setting: Setting
    capacity: int
    load: Load
    lasting: Lasting
    moving: bool
    before: JoinSettings
    after: JoinSettings
    slots: tuple[int, int]
    raised: Raised | None

    @property
    def reason(self) -> str:
        """Reason code."""
        before, after = self.before, self.after
        if self.moving:
            return CHANGING
        if before.workers < self.setting.start:
            return STARTS
        if before.workers > self.setting.most:
            return TOO_MANY
        if after.workers != before.workers:
            return OVERLOADED if after.workers > before.workers else OVERSIZED
        if overloaded(self.lasting, self.setting.options):
            return EXHAUSTED
        return SHEDS if after.shed else FITS

    @property
    def utilisation(self) -> float:
        """Load over what the workers that are wanted can keep."""
        return self.load.tuples / (self.after.workers * self.capacity)

    def changes(self, app: str) -> tuple[Change, ...]:
        """Return what is to be changed of an app."""
        pairs = [(name, *(getattr(s, f) for s in (self.before, self.after))) for name, f in JOIN_FIELDS.items()]
        pairs.append((SLOTS, *self.slots))
        return tuple(Change(app, name, before, after) for name, before, after in pairs if before != after)
