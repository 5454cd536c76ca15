"""Share slots between pipelines: weighted max-min fairness, in whole slots.

Symbols, per pipeline i:
    w_i, low_i, need_i    weight, fewest slots and wanted slots
    x_i(v)                min(max(v w_i, low_i), need_i): its exact share at water level v
    X(v)                  sum_i x_i(v); the exact share of a total t is x_i(v) with X(v) = t

The exact share gives a pipeline at most its need. Slots that one pipeline does not need raise the water level, so the
others get them by weight.

Whole slots come from the quota method of Balinski and Young, extended by low_i and need_i. Start from low_i and give
one slot at a time. Slot k + 1 of pipeline i opens as soon as its exact share exceeds k, at any total > X(k / w_i). Of
all open slots, give the one with the smallest (k + 1) / w_i, the water level at which it is due. Therefore:
    Every share is within one slot of the exact share. Each slot is a task of length 1 that must be given after it opens
    and no later than it is due. Between two totals t < u, at most sum_i (x_i(u) - x_i(t)) = u - t slots both open and
    become due. So a schedule without late slots exists, and the earliest due slot first is such a schedule.
    A larger total takes no slot from a pipeline, because it continues the same sequence. Rounding by largest remainder
    would take some (the Alabama paradox).
Integers make the result exact. The water level counts in units of 1 / L, and L is the least common multiple of the
weights as integers. The order of the pipelines does not matter, so each of them can compute the result.

If slots come in steps, the unit is the steps' greatest common divisor. Pipelines with larger steps are rounded down,
and pipelines below their exact share then get the remaining slots, at most one step each.

Reference:
    M. Balinski, H. Young: The Quota Method of Apportionment, American Mathematical Monthly 82 (1975).
    D. Bertsekas, R. Gallager: Data Networks (1992), Section 6.5.2: max-min fairness by progressive filling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from millrace.model.errors import MillraceError


@dataclass(frozen=True)
class Claim:
    """What one pipeline may get.

    Attributes:
        need: Slots that it wants, a multiple of its step, >= 0; a need below ``low`` counts as ``low``.
        weight: Its weight, > 0 and finite.
        low: Its fewest slots, a multiple of its step, >= 0.
        step: Its slots are a multiple of this, >= 1.
    """

    need: int
    weight: float = 1.0
    low: int = 0
    step: int = 1

    @property
    def most(self) -> int:
        """The most slots that it may get."""
        return max(self.low, self.need)


def fair_shares(claims: Mapping[str, Claim], total: int) -> Mapping[str, int]:
    """Return the slots per pipeline, in the order of their names.

    The sum is at most ``total``. Each share is less than one of the pipeline's own steps away from the exact share of
    ``total``, rounded down to a multiple of the steps' greatest common divisor. If all steps are equal, a larger total
    takes no slot from a pipeline.

    Args:
        claims: What each pipeline may get, by name.
        total: Slots that all pipelines may use together, >= the sum of their fewest.

    Raises:
        MillraceError: The total is less than the fewest slots of all, or a number is outside its range.
    """
    names = sorted(claims)
    for name in names:
        _check(name, claims[name])
    ordered = [claims[name] for name in names]
    lowest = sum(claim.low for claim in ordered)
    if total < lowest:
        allowed = f">= {lowest}, the fewest slots of all pipelines"
        remedy = "Raise the quota, or lower slots.min of a pipeline."
        raise MillraceError("guards.max_total_slots", total, allowed, remedy)
    unit = math.gcd(*(claim.step for claim in ordered)) or 1
    total -= total % unit
    sharing = _Sharing(ordered)
    sharing.give_units(total, unit)
    if any(claim.step > unit for claim in ordered):
        sharing.round_to_steps(total)
    return dict(zip(names, sharing.held, strict=True))


def _check(name: str, claim: Claim) -> None:
    multiple = f"a multiple of {claim.step}, >= 0"
    for key, value, allowed, valid in (
        ("priority", claim.weight, "a finite number > 0", 0 < claim.weight < math.inf),
        ("step", claim.step, ">= 1", claim.step >= 1),
        ("slots.min", claim.low, multiple, claim.low >= 0 and claim.low % max(claim.step, 1) == 0),
        ("need", claim.need, multiple, claim.need >= 0 and claim.need % max(claim.step, 1) == 0),
    ):
        if not valid:
            raise MillraceError(f"{name}.{key}", value, allowed, "Correct the pipeline's spec.")


class _Sharing:
    """The slots that pipelines hold while the total is given out; levels in units of 1 / L."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.claims = claims
        self.held = [claim.low for claim in claims]
        exact = [Fraction(claim.weight) for claim in claims]
        scale = math.lcm(*(weight.denominator for weight in exact))
        weights = [int(weight * scale) for weight in exact]
        self._unit = math.lcm(*weights)
        self._paces = [self._unit // weight for weight in weights]
        self._limits = [(w, c.low * self._unit, c.most * self._unit) for w, c in zip(weights, claims, strict=True)]

    def give_units(self, total: int, unit: int) -> None:
        """Give units until the total is used up or all needs are met."""
        opens = [self._filled(i) for i in range(len(self.claims))]
        end = min(total, sum(claim.most for claim in self.claims))
        for given in range(sum(self.held) + unit, end + 1, unit):
            growing = [i for i, claim in enumerate(self.claims) if self.held[i] < claim.most and opens[i] < given]
            taker = min(growing, key=lambda i: self._due(i, unit))
            self.held[taker] += unit
            opens[taker] = self._filled(taker)

    def round_to_steps(self, total: int) -> None:
        """Round down to steps, then give what remains to pipelines below their exact share, the earliest due first."""
        self.held = [held - held % claim.step for held, claim in zip(self.held, self.claims, strict=True)]
        for i in sorted(range(len(self.claims)), key=lambda i: self._due(i, self.claims[i].step)):
            step, left = self.claims[i].step, total - sum(self.held)
            if step <= min(left, self.claims[i].most - self.held[i]) and self._filled(i) < total:
                self.held[i] += step

    def _due(self, i: int, slots: int) -> int:
        """Return the water level at which the next slots of a pipeline are due; in a tie, the first name gets them."""
        return (self.held[i] + slots) * self._paces[i]

    def _filled(self, i: int) -> int:
        """Return X(v), rounded down, at the water level at which the exact share of pipeline i is what it holds."""
        level = self.held[i] * self._paces[i]
        return sum(min(max(level * weight, low), need) for weight, low, need in self._limits) // self._unit
