"""What is measured: scenarios, the methods on each, and the number of runs.

All methods run on the paper's workload. On other workloads one method of each kind runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.conttune import published
from benchmarks.conttune.methods import DS2_FRONTIER, FLINK, FLOW_FRONTIER, FRONTIERS, METHODS
from benchmarks.data import folder
from benchmarks.simulation.scenario import Scenario
from benchmarks.simulation.scenarios import LIVE, SUFFIX, base_name, scenario

RECORDED = ("etl", "monitoring")
"""Scenarios that replay published rates."""
WARM_OF = {"paper": "paper_warm", "paper_mb": "paper_warm_mb"}
"""Scenarios whose runs are also scored as another scenario: the same runs, from a later tuning on."""
SHIFTED = "_shifted"
"""Scenarios whose changes fall within periods, as real changes do: an evaluation then measures a mean of two rates."""
SHIFTS = 7
"""Runs take turns with this many evenly spaced moments within an evaluation."""
FRONTIER_SCENARIOS = (
    *("paper", "noise3", "dag12", "drift", "etl"),
    *("paper" + SHIFTED, "monitoring", "diurnal", "plateau", "window_noise"),
)
"""Scenarios that Flink's autoscaler also runs on."""
UNSEEN = (
    *("noise3_untold", "positive", "heavy", "outliers"),
    *("wiggle4", "wiggle8", "amdahl", "usl", "executors", "executors_told"),
    *("random_walk", "video"),
)
"""Noise, processing abilities and loads that ``flow`` was not developed on."""

MAIN = ("oracle", "flow", "conttune_strong", "ds2", "ds2_stop")
LITERAL = ("conttune_3", "conttune_0", "conttune_3_no_topk", "conttune_3_eq4", "big_ds2", "cei")
OTHERS = ("dhalion", "dragster", "random")
CHEAP = ("oracle", "flow", "flow_proactive", "ds2", "ds2_stop", "dhalion", "random")
"""A run takes a second or less with these; with a Gaussian process whose kernel is fitted it takes several."""
FRONTIER = tuple(dict.fromkeys(name for names in FRONTIERS.values() for name in names))


@dataclass(frozen=True)
class Case:
    """Methods on a scenario, all on the same runs. A scenario may have several cases of different length.

    Attributes:
        scenario: Name of the scenario.
        methods: Names of the methods.
        runs: How many runs of each; they are numbered from 0.
    """

    scenario: str
    methods: tuple[str, ...]
    runs: int


RUNS, OTHER_RUNS = 72, 12
"""72 runs of the paper's workload are 1440 tunings. With 12 runs the interval is wider than most targets' margin."""
OURS = ("oracle", "flow", "flow_proactive")
"""Methods that have targets, and the methods that they are compared with."""


def cases(quick: bool) -> Sequence[Case]:
    """Return all cases in reporting order.

    Args:
        quick: Every scenario, but few runs, and most rivals on the main scenario only.
    """
    return tuple(_quick() if quick else _full())


def _full() -> Iterator[Case]:
    yield Case("paper", _names(MAIN, ("flow_proactive",), FRONTIER, LITERAL, OTHERS), RUNS)
    for name in FRONTIER_SCENARIOS[1:]:
        yield Case(name, _names(MAIN, ("flow_proactive",), FRONTIER, ("conttune_3",), OTHERS), OTHER_RUNS)
    for name in UNSEEN:
        yield Case(name, _names(MAIN, FLINK), RUNS)
    yield Case("paper" + SUFFIX, CHEAP, RUNS)
    yield Case("paper" + SUFFIX, ("conttune_strong", *LITERAL, "dragster"), OTHER_RUNS)
    for name in (
        "paper" + SHIFTED,
        "noise3",
        "dag12",
        "drift",
        "etl",
        "monitoring",
        "diurnal",
        "plateau",
        "window_noise",
    ):
        yield Case(name + SUFFIX, _names(CHEAP, ("conttune_strong",)), OTHER_RUNS)
    for name in ("paper", "diurnal", "drift"):
        yield Case(name + LIVE, _names(CHEAP, ("conttune_strong",)), OTHER_RUNS)


def _quick() -> Iterator[Case]:
    rooms, others = ("flow_r10", FLOW_FRONTIER[-1]), (*DS2_FRONTIER, *FLINK)
    yield Case("paper", _names(CHEAP, ("flow_risk50",), rooms, others), 3)
    yield Case("paper", ("conttune_strong", *LITERAL, "dragster"), 1)
    for name in ("noise3", "drift"):
        yield Case(name, _names(("oracle", "flow"), rooms, others), 1)
    yield Case("dag12", _names(("oracle", "flow", "flow_r10"), others), 1)
    yield Case("etl", _names(("oracle", "flow", "flow_risk50"), rooms, others), 1)
    yield Case("paper" + SHIFTED, ("oracle", "flow", "ds2_stop", FLINK[1]), 2)
    yield Case("monitoring", ("oracle", "flow", "ds2_stop"), 1)
    yield Case("diurnal", ("oracle", "flow", "flow_proactive", "ds2_stop"), 1)
    yield Case("plateau", ("oracle", "flow", "ds2_stop"), 3)
    yield Case("window_noise", ("oracle", "flow", "ds2_stop"), 2)
    for name in UNSEEN:
        yield Case(name, ("oracle", "flow"), 1)
    yield Case("paper" + SUFFIX, CHEAP, 3)
    for name in ("paper" + SHIFTED, "noise3", "dag12", "drift", "etl", "monitoring", "plateau", "window_noise"):
        yield Case(name + SUFFIX, ("oracle", "flow", "ds2_stop"), 2)
    yield Case("diurnal" + SUFFIX, ("oracle", "flow_proactive", "ds2_stop"), 1)
    yield Case("paper" + LIVE, ("oracle", "flow", "ds2_stop"), 2)


def _names(*groups: Sequence[str]) -> tuple[str, ...]:
    """Return the methods of all groups, each once, in the order of the table of methods."""
    return tuple(sorted({name for group in groups for name in group}, key=list(METHODS).index))


def without_rivals(wanted: Sequence[Case]) -> Sequence[Case]:
    """Return the cases without rivals: only methods that have targets."""
    kept = [replace(case, methods=tuple(m for m in case.methods if m in OURS)) for case in wanted]
    return [case for case in kept if case.methods]


def left_out(found: Sequence[Case]) -> tuple[Sequence[Case], Sequence[str]]:
    """Return the cases that can be measured here, and one line per other case saying why it cannot."""
    kept, reasons = [], []
    for case in found:
        base = base_name(case.scenario)
        if base in RECORDED and published.workload(base) is None:
            reasons.append(f"{case.scenario}: no {published.WORKLOADS} in {folder()} (MILLRACE_DATA)")
        else:
            kept.append(case)
    return kept, reasons


def made(name: str, run: int) -> Scenario:
    """Return the scenario of a run."""
    base = base_name(name)
    found = scenario(name.replace(SHIFTED, ""), run, published.workload(base) if base in RECORDED else None)
    if SHIFTED not in name:
        return found
    within = found.period_s * (1 + run % SHIFTS) / (1 + SHIFTS)
    return replace(found, name=name, workload=found.workload.delayed(within))
