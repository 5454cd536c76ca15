"""Options of a join's policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from include.model.errors import MillraceError
from optimizers.esj import block_size, shedding
from optimizers.esj.deployment import SECTION, initial_workers
from optimizers.esj.thresholds import Thresholds, thresholds
from optimizers.ranges import JOIN, NOT_NEGATIVE, Range, check, check_fields, parse_fields

OFFERED, WINDOW = "offered", "window"
TAUS = ("tau0", "tau1", "tau2", "tau3")


@dataclass(frozen=True)
class Options:
    """How a join adapts to its load.

    Attributes:
        base: B, share of the new tuples that is shed where shedding begins, 0..1.
        shedding: Form of the shed factor between there and a full worker: ``linear`` or ``quadratic``.
        trigger: What workers are added and taken away by: ``offered`` is what the window would hold had nothing been
            shed, or soon will; ``window`` is the fullest worker, as the paper has it.
        ahead: Periods that the offered load is projected ahead by what it grew in the last one, >= 0; 0 projects none.
        lasts_s: How long utilisation must have been tau3 or more before workers are added, seconds, >= 0.
        sheds_s: How long it must have been tau2 or more, with the trigger ``offered``, seconds, >= 0: what must be shed
            for longer than that is no burst.
        cool_s: How long it must have been tau0 or less before workers are taken away, and the least time from any
            change of their number to that, seconds, >= 0.
        alpha: Weight of imbalance against serialisation where the block size is chosen, (0, 0.8).
        block_size: ``optimum``, or ``literal`` for the paper's closed form.
        block_margin: The block size stays unless another costs less by this share, >= 0.
        shed_step: What shed ratios are multiples of, (0, 0.5].
        thresholds: tau0 to tau3.
    """

    base: float = 0.1
    shedding: str = shedding.LINEAR
    trigger: str = OFFERED
    ahead: float = 4.0
    lasts_s: float = 15.0
    sheds_s: float = 30.0
    cool_s: float = 300.0
    alpha: float = 0.5
    block_size: str = block_size.OPTIMUM
    block_margin: float = 0.5
    shed_step: float = 0.05
    thresholds: Thresholds = field(default_factory=Thresholds)

    def __post_init__(self) -> None:
        """Refuse values of a wrong type or out of range.

        Raises:
            MillraceError: With the option, its value, the allowed range and the remedy.
        """
        check_fields(self, ALLOWED, JOIN)


@dataclass(frozen=True)
class Setting:
    """A join's policy, and what it may use.

    Attributes:
        capacity: W, tuples that a worker keeps at most, >= 2.
        window_s: phi, how long tuples stay in the window, seconds of event time, >= 0.
        least: Workers at least, >= 1.
        most: Workers at most, >= least.
        expected_rows_per_s: Rate of all streams together that the join is begun for, event time; None if unknown.
        options: How it adapts.
    """

    capacity: int
    window_s: float
    least: int = 1
    most: int = 8
    expected_rows_per_s: float | None = None
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        """Refuse values of a wrong type or out of range.

        Raises:
            MillraceError: With the key, its value, the allowed range and the remedy.
        """
        check("capacity", self.capacity, int, SECTION)
        check("capacity", self.capacity, block_size.CAPACITY, SECTION)
        check("window_s", self.window_s, NOT_NEGATIVE, SECTION)
        check("workers.min", self.least, int, SECTION)
        check("workers.max", self.most, int, SECTION)
        if self.least > self.most:
            remedy = "Raise workers.max or lower workers.min."
            raise MillraceError(f"{SECTION}.workers.min", self.least, f"<= workers.max = {self.most}", remedy)
        if self.expected_rows_per_s is not None:
            check("expected_rows_per_s", self.expected_rows_per_s, NOT_NEGATIVE, SECTION)

    @cached_property
    def start(self) -> int:
        """M, workers that the join begins with and keeps at least."""
        if self.expected_rows_per_s is None:
            return self.least
        tau1 = self.options.thresholds.tau1
        wanted = initial_workers(self.expected_rows_per_s, self.window_s, self.capacity, tau1)
        return min(self.most, max(self.least, wanted))


ALLOWED: Mapping[str, Any] = {
    "base": Range(0, 1),
    "shedding": shedding.FORMS,
    "trigger": (OFFERED, WINDOW),
    "ahead": NOT_NEGATIVE,
    "lasts_s": NOT_NEGATIVE,
    "sheds_s": NOT_NEGATIVE,
    "cool_s": NOT_NEGATIVE,
    "alpha": block_size.ALPHA,
    "block_size": block_size.METHODS,
    "block_margin": Range(0, math.inf, high_open=True),
    "shed_step": Range(0, 0.5, low_open=True),
}


def parse(section: Mapping[str, Any]) -> Setting:
    """Return the checked policy of a spec's section ``join``; what is absent has its default.

    Args:
        section: ``capacity``; ``window_s``; ``workers``: ``min`` and ``max``; ``expected_rows_per_s``; ``options``:
            those of :class:`Options`, and tau0 to tau3 by name.

    Raises:
        MillraceError: If an option is unknown, a value of a wrong type or out of range, or thresholds are out of order.
    """
    given = dict(section.get("options") or {})
    taus = {name: given.pop(name) for name in TAUS if name in given}
    if "thresholds" in given:
        raise MillraceError(f"{JOIN}.thresholds", given["thresholds"], ", ".join(TAUS), "Set these one by one.")
    limits = thresholds(taus)
    options = parse_fields(Options, {**given, "thresholds": limits}, TAUS, JOIN)
    workers = section.get("workers") or {}
    return Setting(
        capacity=section.get("capacity", 0),
        window_s=section.get("window_s", 0.0),
        least=workers.get("min", 1),
        most=workers.get("max", 8),
        expected_rows_per_s=section.get("expected_rows_per_s"),
        options=options,
    )
