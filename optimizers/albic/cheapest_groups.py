"""How few key groups of a node, or how cheap ones, have a given load together.

The groups of a node are a pile. Prefix sums over all piles, each sorted, answer for many piles at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.optimizers.arrays import Floats, Ints

GRAIN = 1e-9
"""Relative rounding error of sums; bounds are loosened by it."""


@dataclass(frozen=True)
class OrderedPiles:
    """Groups in order of preference, pile after pile, as prefix sums.

    Attributes:
        first: Start of each pile, shape (P + 1,).
        load: Prefix sums of loads over all piles, shape (G + 1,).
        price: Prefix sums of prices in the same order, shape (G + 1,).
    """

    first: Ints
    load: Floats
    price: Floats

    @classmethod
    def of(cls, load: Floats, price: Floats, pile: Ints, piles: int, rank: Floats) -> OrderedPiles:
        """Order groups by rank within their piles, the greatest first; all of shape (G,)."""
        order = np.lexsort((-rank, pile))
        first = np.searchsorted(pile[order], np.arange(piles + 1))
        return cls(first, _prefix(load[order]), _prefix(price[order]))

    def count(self, pile: Ints, need: Floats) -> Ints:
        """Return how many groups of each pile cover a need; the pile's size plus one if all of them do not."""
        base = self.load[self.first[pile]]
        eased = need - GRAIN * (self.load[-1] + 1.0)
        count = np.searchsorted(self.load, base + eased, side="left") - self.first[pile]
        return np.asarray(np.minimum(np.maximum(count, 0), self.size(pile) + 1))

    def size(self, pile: Ints) -> Ints:
        """Return the number of groups in each pile."""
        return self.first[pile + 1] - self.first[pile]

    def weight(self, pile: Ints, count: Ints) -> Floats:
        """Return the load of the first ``count`` groups of each pile; of all if the pile has fewer."""
        ends = np.minimum(self.first[pile] + count, self.first[pile + 1])
        return np.asarray(self.load[ends] - self.load[self.first[pile]])

    def fraction(self, pile: Ints, need: Floats) -> Floats:
        """Return the price of a need if the last group could be split; infinite if the whole pile is too light."""
        count = self.count(pile, need)
        full = np.maximum(count - 1, 0) + self.first[pile]
        last = np.minimum(full + 1, self.first[pile + 1])
        missing = np.maximum(need - (self.load[full] - self.load[self.first[pile]]), 0.0)
        weight = self.load[last] - self.load[full]
        share = np.divide(missing, weight, out=np.zeros_like(missing), where=weight > 0)
        price = self.price[full] - self.price[self.first[pile]]
        price = price + np.minimum(share, 1.0) * (self.price[last] - self.price[full])
        return np.where(count > self.size(pile), np.inf, np.where(count == 0, 0.0, price))

    def cheapest(self, pile: Ints, count: Ints) -> Floats:
        """Return the price of the first ``count`` groups of each pile; infinite if the pile has fewer."""
        ends = np.minimum(self.first[pile] + count, self.first[pile + 1])
        return np.where(count > self.size(pile), np.inf, self.price[ends] - self.price[self.first[pile]])


class PiledGroups:
    """Piles of groups, and the least price of a number of them with at least a given load.

    Args:
        load: Load of each group, shape (G,).
        price: Price of each group, shape (G,).
        pile: Pile of each group, 0..P-1, shape (G,).
        piles: P.
    """

    def __init__(self, load: Floats, price: Floats, pile: Ints, piles: int) -> None:
        self.unit = float(price[0]) if len(price) else 0.0
        self.equal = bool((price == self.unit).all())
        self.heavy = OrderedPiles.of(load, price, pile, piles, load)
        self.light = OrderedPiles.of(load, price, pile, piles, -load)
        if not self.equal:
            per_price = np.divide(load, price, out=np.full(len(load), np.inf), where=price > 0)
            self._efficient = OrderedPiles.of(load, price, pile, piles, per_price)
            self._cheap = OrderedPiles.of(load, price, pile, piles, -price)

    def least(self, pile: Ints, count: Ints, need: Floats) -> Floats:
        """Return a lower bound on each price, shape of ``pile``; infinite if the whole pile is too light."""
        if self.equal:
            return np.where(count > self.heavy.size(pile), np.inf, count * self.unit)
        return np.maximum(self._efficient.fraction(pile, need), self._cheap.cheapest(pile, count))


def _prefix(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])
