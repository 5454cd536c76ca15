"""Measure how well tuners size simulated jobs: ``./millrace bench conttune``.

Every method runs on the same cases with the same random draws. Its score uses the true values, which it cannot see. The
benchmark also measures how well the surrogates predict a published table, and whether our DS2 matches the original.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from rich.console import Group, RenderableType

from benchmarks.conttune import leave_one_out, parity, published
from benchmarks.conttune.cases import FRONTIER_SCENARIOS, Case, cases, left_out, without_rivals
from benchmarks.conttune.estimate import Estimate, estimate
from benchmarks.conttune.frontier import compared
from benchmarks.conttune.methods import FLINK
from benchmarks.conttune.pictures.album import draw
from benchmarks.conttune.summary import against_oracle, by_method, record, records, worst
from benchmarks.conttune.tables import scenario_tables, target_table
from benchmarks.conttune.targets import TARGETS
from benchmarks.conttune.work import Outcome, jobs, outcomes, processors
from benchmarks.data import folder
from benchmarks.flink.autoscaler import FlinkAutoscaler
from benchmarks.record import Record
from benchmarks.seeds import first_run
from benchmarks.targets import judged
from benchmarks.threads import one_thread
from millrace.environment.home import Home
from millrace.local.stack.progress import say, step
from millrace.optimizers.registry import create

DIURNAL = ("diurnal", "diurnal_mb")
LOO, PARITY = "loo", "ds2_parity"
SCENARIOS = (*dict.fromkeys(case.scenario for case in cases(False)), LOO, PARITY)


def run(quick: bool, scenarios: Collection[str] = SCENARIOS, seed: int = 0, rivals: bool = True) -> list[Record]:
    """Measure everything; name anything that cannot be measured here on stderr, with the reason.

    Args:
        quick: Fewer runs, and the lesser rivals on the main scenario only.
        scenarios: Scenarios to measure.
        seed: Another seed gives other runs.
        rivals: If false, frontiers are not compared either.
    """
    wanted, reasons = left_out([case for case in cases(quick) if case.scenario in scenarios])
    wanted = wanted if rivals else without_rivals(wanted)
    wanted, without = _without_flink(wanted)
    found = measured(wanted, processors(), first_run(seed))
    reasons = [*reasons, *without, *failures(found)]
    with one_thread():
        told = [
            *_simulated(found, rivals),
            *(_loo(reasons) if LOO in scenarios else ()),
            *(_parity() if PARITY in scenarios else ()),
        ]
    for reason in reasons:
        say(f"left out: {reason}")
    return judged(told, TARGETS)


def report(found: Sequence[Record]) -> RenderableType:
    """Lay out the results for a person: one table per scenario, the targets, and pictures, which are drawn here."""
    with step("pictures"), one_thread():
        paths = draw(found, Home.from_env().reports / "conttune")
    return Group(*scenario_tables(found), target_table(found), *(f"picture: {path}" for path in paths))


def measured(wanted: Sequence[Case], workers: int, first: int = 0) -> list[Outcome]:
    """Do all runs of all cases, and show the time of each case as it ends.

    Args:
        wanted: The cases.
        workers: Number of processes; 0 runs everything in this one.
        first: Number of the first run of each case.
    """
    found: list[Outcome] = []
    listed = [jobs(case, first) for case in wanted]
    stream = outcomes([job for of_case in listed for job in of_case], workers)
    for case, of_case in zip(wanted, listed, strict=True):
        with step(f"{case.scenario}: {case.runs} runs of {len(case.methods)} methods"):
            found += [next(stream) for _ in of_case]
    stream.close()
    return found


def failures(found: Sequence[Outcome]) -> list[str]:
    """Return a line for each method that failed on a scenario: how often, and the first error."""
    errors: dict[tuple[str, str], list[str]] = {}
    for outcome in found:
        if outcome.error is not None:
            errors.setdefault((outcome.job.scenario, outcome.job.method), []).append(outcome.error)
    return [f"{scenario}, {method}: {len(e)} runs failed: {e[0]}" for (scenario, method), e in errors.items()]


def _without_flink(wanted: Sequence[Case]) -> tuple[Sequence[Case], Sequence[str]]:
    if not any(method in FLINK for case in wanted for method in case.methods):
        return wanted, ()
    with step("Flink's autoscaler"):
        available = FlinkAutoscaler.available()
    if available:
        return wanted, ()
    kept = [replace(case, methods=tuple(m for m in case.methods if m not in FLINK)) for case in wanted]
    return kept, [f"{', '.join(FLINK)}: {available.reason}"]


def _simulated(found: Sequence[Outcome], rivals: bool) -> Iterator[Record]:
    runs = by_method(found)
    means = records(runs)
    yield from means
    yield from worst(runs, "ineffective_steps")
    for scenario in DIURNAL:
        for method in ("flow", "flow_proactive"):
            yield from against_oracle(runs, scenario, method, "throttled_ratio")
    for scenario in FRONTIER_SCENARIOS if rivals else ():
        yield from compared(means, scenario)


def _loo(reasons: list[str]) -> Iterator[Record]:
    table = published.abilities()
    if table is None:
        reasons.append(f"loo: no {published.ABILITIES} in {folder()} (MILLRACE_DATA)")
        return
    for method, predict in leave_one_out.SURROGATES.items():
        yield record(LOO, method, "loo_error", estimate(leave_one_out.errors(table, predict)), "ratio")


def _parity() -> Iterator[Record]:
    ds2 = create("ds2", {"rates": "producer", "known_arrival_rate": False})
    count = parity.mismatches(ds2)
    known = Estimate(count, None, None, len(parity.FIXTURES))
    yield record(PARITY, "ds2", "mismatches", known, f"of {len(parity.FIXTURES)}")
