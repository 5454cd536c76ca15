"""Make the maps of keys to workers that running queries follow.

Skew is the rows of the worker with the most over the mean: a stage of a batch takes that many times longer than with
equal work. Each evaluation adds the period's samples to older ones, whose weight halves in ``half_life_s``, and plans a
map: by water-filling from the one in use, or as published. It is proposed if

    skew now - skew then >= least_gain + move_cost * share of the rows that move + sqrt((N - 1) / rows sampled)

for N workers. The root is the skew that chance alone makes in a sample: without it, maps would follow noise.

Reference: ours; Balkesen, Tatbul, Ozsu, DEBS 2013, Section 4.1, splits by frequency but does not say when to re-plan.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from millrace.model.deployment import PARTITION_MAP
from millrace.model.key_map import HOT_KEYS, KEY_GROUPS, PARTITION_OPTIMIZER, KeyMap, KeySample
from millrace.model.paper_hash import paper_hash
from millrace.model.partitioning import PartitionMap, Sketch, expanded, hashed_sketch, hot_keys, shortened, skew
from millrace.model.waterfill import waterfill
from millrace.optimizers.api import Change, Deployment, Memory, Options, Proposal, Signals
from millrace.optimizers.memory import items, mapping, number, numbers

NO_KEYS, EVEN, SKEWED, OTHER_WORKERS = "no_keys", "keys_even", "keys_skewed", "other_workers"
HASH = re.compile(r"-?[0-9]{1,19}")
MOST_NAMES = 16
MOST_WORKERS = 4096


class PartitionOptions(Options):
    """How a map is made, and when it is replaced.

    Attributes:
        method: ``waterfill`` moves few rows from the map in use; ``paper_hash`` is the published method, which takes no
            account of it.
        half_life_s: Time in which the weight of older samples halves, seconds, > 0.
        least_gain: Least fall of the skew that is worth a new map, >= 0.
        move_cost: Further fall that it must bring per share of the rows that move, >= 0: workers that keep something
            per key have to get it again.
    """

    section: ClassVar[str] = "partitioning.options"

    method: Literal["waterfill", "paper_hash"] = "waterfill"
    half_life_s: float = Field(300.0, gt=0)
    least_gain: float = Field(0.1, ge=0)
    move_cost: float = Field(0.1, ge=0)


@dataclass(frozen=True)
class _Seen:
    """Samples of the keys of one name: rows, and rows of the most frequent keys by their hashes."""

    columns: tuple[str, ...] = ()
    until: float = 0.0
    rows: float = 0.0
    hot: Mapping[int, float] = field(default_factory=dict)

    def plus(self, sample: KeySample, half_life_s: float) -> _Seen:
        """Return these samples, as far as they have not faded, and a new one."""
        until = max(self.until, sample.time.timestamp())
        weight = 0.5 ** ((until - self.until) / half_life_s) if self.columns == sample.columns else 0.0
        hot = {key: weight * rows for key, rows in self.hot.items() if weight * rows >= 1}
        for of in sample.hot:
            hot[of.key] = hot.get(of.key, 0.0) + of.rows
        most = sorted(hot, key=lambda key: (-hot[key], key))[:HOT_KEYS]
        return _Seen(sample.columns, until, weight * self.rows + sample.rows, {key: hot[key] for key in most})

    @property
    def sketch(self) -> Sketch:
        return hashed_sketch(self.rows, self.hot, KEY_GROUPS)


class PartitionMaps:
    """Re-plans the maps of keys to workers.

    Args:
        options: How a map is made, and when it is replaced.
    """

    Options = PartitionOptions

    def __init__(self, options: PartitionOptions) -> None:
        self.options = options

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Propose maps for the skewed keys, say why, and remember what was sampled."""
        samples = [sample for sample in signals.keys[:MOST_NAMES] if _is_sound(sample) and sample.app in current.apps]
        if not samples:
            return Proposal(PARTITION_OPTIMIZER, (), NO_KEYS, ""), memory
        seen, half_life_s = _read(memory), self.options.half_life_s
        seen |= {sample.name: seen.get(sample.name, _Seen()).plus(sample, half_life_s) for sample in samples}
        names = {sample.name for sample in samples} | current.partitioning.keys()
        kept = {"keys": {name: _written(of) for name, of in seen.items() if name in names}}
        plans = [self._plan(sample, seen[sample.name], current) for sample in samples]
        changes = tuple(_change(plan, current) for plan in plans if plan.reason != EVEN)
        told = [plan for plan in plans if (plan.reason != EVEN) == bool(changes)]
        predicted = {"key_skew_ratio": max(plan.after if changes else plan.before for plan in told)}
        # a change of one map already names its keys
        sentence = told[0].sentence if changes and len(told) == 1 else "; ".join(plan.named for plan in told)
        return Proposal(PARTITION_OPTIMIZER, changes, told[0].reason, sentence, predicted), kept

    def _plan(self, sample: KeySample, seen: _Seen, current: Deployment) -> _Plan:
        deployed, sketch, workers = current.partitioning.get(sample.name), seen.sketch, sample.workers
        fits = deployed is not None and (deployed.columns, deployed.key_groups) == (sample.columns, KEY_GROUPS)
        before = expanded(deployed) if fits and deployed is not None else _by_hash(workers)
        hot = hot_keys(sketch, workers)
        is_published = self.options.method == "paper_hash"
        after = paper_hash(sketch, workers, hot) if is_published else waterfill(sketch, workers, hot, before)
        plan = _Plan(sample, seen.rows, before, after, sketch, SKEWED)
        if before.workers != workers:
            return replace(plan, reason=OTHER_WORKERS)
        noise = math.sqrt((workers - 1) / max(seen.rows, 1.0))
        least = self.options.least_gain + self.options.move_cost * plan.moved + noise
        return plan if plan.before - plan.after >= least else replace(plan, reason=EVEN)


@dataclass(frozen=True)
class _Plan:
    """The map in use and the best one for the keys of one name."""

    sample: KeySample
    rows: float
    map_before: PartitionMap
    map_after: PartitionMap
    sketch: Sketch
    reason: str

    @property
    def before(self) -> float:
        return skew(self.map_before, self.sketch)

    @property
    def after(self) -> float:
        return skew(self.map_after, self.sketch)

    @property
    def moved(self) -> float:
        return self.map_after.moved(self.map_before, self.sketch)

    @property
    def sentence(self) -> str:
        """For example ``the most loaded of 4 workers gets 1.81 times the mean, with another map 1.02``."""
        workers = self.sample.workers
        if self.reason == OTHER_WORKERS:
            return f"the map is for {self.map_before.workers} workers, and {workers} run"
        now = f"the most loaded of {workers} workers gets {self.before:.2f} times the mean"
        if self.reason == EVEN:
            return f"{now}, and no other map is worth the change"
        split = sum(len(shares) > 1 for shares in self.map_after.hot.values())
        return (
            f"{now}, with another map {self.after:.2f}, by a sample of {self.rows:,.0f} rows; {self._hottest}"
            f"{split or 'no'} key{'s are' if split > 1 else ' is'} split, and {100 * self.moved:.0f} % of the rows move"
        )

    @property
    def named(self) -> str:
        """The same with the name of the keys."""
        return f"{self.sample.name}: {self.sentence}"

    @property
    def _hottest(self) -> str:
        top = max(self.sample.hot, key=lambda of: of.rows, default=None)
        if top is None or not self.sample.rows:
            return ""
        return f"{top.label!r} has {100 * top.rows / self.sample.rows:.0f} %, "


def _change(plan: _Plan, current: Deployment) -> Change:
    name = plan.sample.name
    deployed = current.partitioning.get(name)
    before = 0 if deployed is None else deployed.revision
    made: KeyMap = shortened(plan.map_after, max(current.version, before) + 1, plan.sample.columns)
    return Change(plan.sample.app, PARTITION_MAP, before, made.revision, operator=name, key_map=made)


def _by_hash(workers: int) -> PartitionMap:
    return expanded(KeyMap(1, (), workers))


def _is_sound(sample: KeySample) -> bool:
    """Return whether a sample can be right; a wrong one would spoil the map."""
    rows = [sample.rows, *(of.rows for of in sample.hot)]
    if any(number(value, 0.0) is None for value in rows) or not 1 <= (number(sample.workers) or 0) <= MOST_WORKERS:
        return False
    return sample.rows > 0 and sum(of.rows for of in sample.hot) <= sample.rows


def _read(memory: Memory) -> dict[str, _Seen]:
    seen = {}
    for name, of in mapping(memory.get("keys")).items():
        stored = mapping(of)
        columns, until, rows = (
            items(stored.get("columns")),
            number(stored.get("until")),
            number(stored.get("rows"), 0.0),
        )
        hot = {int(key): n for key, n in numbers(stored.get("hot"), 0.0).items() if HASH.fullmatch(key)}
        if until is not None and rows is not None and sum(hot.values()) <= rows * (1 + 1e-6):
            seen[name] = _Seen(tuple(map(str, columns)), until, rows, hot)
    return seen


def _written(seen: _Seen) -> Mapping[str, Any]:
    hot = {str(key): rows for key, rows in seen.hot.items()}
    return {"columns": list(seen.columns), "until": seen.until, "rows": seen.rows, "hot": hot}
