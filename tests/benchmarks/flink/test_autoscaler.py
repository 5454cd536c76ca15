"""Flink's real autoscaler on a fluid job; skipped if Maven or a JDK is not available."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.flink.autoscaler import FlinkAutoscaler
from benchmarks.flink.jvm import Jvm
from benchmarks.flink.settings import COMPARED, FlinkSettings
from millrace.model.errors import MillraceError
from millrace.model.objective import Bounds
from millrace.model.protocols import Optimizer
from tests.benchmarks.flink.fluid_job import FluidJob, deployed

# the first run on a machine fetches 17 MB
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _peer() -> None:
    if not (found := FlinkAutoscaler.available()):
        pytest.skip(found.reason)


def flink(target: float = 0.7, boundary: float = 0.3, **more: float) -> Optimizer:
    return FlinkAutoscaler(FlinkSettings(target, boundary, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("options", COMPARED, ids=lambda s: s.name)
def test_propose_when_capacity_is_half_the_need_then_scales_up_enough_in_one_change(options: FlinkSettings) -> None:
    job = FluidJob(1000.0, {"map": 5, "sink": 3})
    job.run(FlinkAutoscaler(options), 8)
    assert job.suffices() and job.scaled == 1


def test_propose_when_set_to_its_default_then_aims_at_its_target_utilisation() -> None:
    job = FluidJob(1000.0, {"map": 30, "sink": 30})
    job.run(flink(), 6)
    # 1000 rows/s over 70 % of 100 per slot, 1500 over 70 % of 250, and a little for the catch-up after a restart
    assert job.parallelism == {"map": 15, "sink": 9}


def test_propose_when_far_over_provisioned_then_scales_down_in_one_change() -> None:
    job = FluidJob(100.0, {"map": 30, "sink": 30})
    job.run(flink(), 8)
    assert (job.parallelism, job.scaled) == ({"map": 2, "sink": 1}, 1)


def test_propose_when_scale_down_is_limited_then_goes_down_in_steps() -> None:
    job = FluidJob(100.0, {"map": 30, "sink": 30})
    job.run(flink(scale_down_factor=0.6), 12)
    assert job.parallelism == {"map": 2, "sink": 1} and job.scaled > 2


def test_propose_when_steady_then_changes_nothing() -> None:
    job = FluidJob(1000.0, {"map": 15, "sink": 9})
    proposal, memory = job.look(flink(), {})
    assert (proposal.changes, proposal.reason_code) == ((), "flink_stays")
    job.run(flink(), 50, dict(memory))
    assert job.scaled == 0


def test_propose_when_a_restart_happens_then_its_window_starts_over() -> None:
    tuner, memory = flink(), {}
    job = FluidJob(150.0, {"map": 1, "sink": 1})
    changed = []
    for _ in range(6):
        # the load grows in every evaluation: it wants more whenever it can judge
        job.rate *= 1.6
        proposal, memory = job.look(tuner, memory)
        changed.append(bool(proposal.changes))
    assert changed == [False, True, False, True, False, True]


def test_propose_when_window_is_longer_then_decides_later() -> None:
    job = FluidJob(1000.0, {"map": 5, "sink": 3})
    tuner = flink(window_looks=3)
    memory = job.run(tuner, 3)
    assert job.scaled == 0
    job.run(tuner, 1, memory)
    assert job.scaled == 1


def test_propose_when_scaled_then_changes_name_sized_operators_and_what_ran() -> None:
    job = FluidJob(1000.0, {"map": 5, "sink": 3})
    memory = job.run(flink(), 1)
    proposal, _ = job.look(flink(), memory)
    assert proposal.optimizer == "flink" and proposal.reason_code == "flink_scales"
    assert [(c.app, c.field, c.operator, c.before) for c in proposal.changes] == [
        ("job", "parallelism", "map", 5),
        ("job", "parallelism", "sink", 3),
    ]
    assert "map 5 -> 15" in proposal.sentence


@settings(deadline=None, max_examples=20)
@given(
    rate=st.floats(1.0, 3000.0),
    p=st.integers(1, 40),
    q=st.integers(1, 40),
    options=st.sampled_from(COMPARED),
)
def test_propose_when_the_load_stays_then_ends_at_enough_and_within_bounds(
    rate: float, p: int, q: int, options: FlinkSettings
) -> None:
    job = FluidJob(rate, {"map": p, "sink": q})
    tuner = FlinkAutoscaler(options)
    memory = job.run(tuner, 40)
    before = job.scaled
    job.run(tuner, 20, memory)
    assert job.suffices()
    assert all(1 <= n <= 40 for n in job.parallelism.values())
    # without room it sizes for a backlog, and again much later, when the backlog has drained
    assert job.scaled == before or options.boundary < 0.3


def test_propose_when_the_need_exceeds_the_bounds_then_stops_there() -> None:
    job = FluidJob(9000.0, {"map": 5, "sink": 3})
    job.run(flink(), 10)
    assert job.parallelism["map"] == Bounds(1, 40).max_slots


def test_propose_when_rows_are_few_then_decides_as_with_many() -> None:
    # Flink rounds target rates to whole records per second: 0.9 and 1.35 rows/s must not become 1
    few, many = (FluidJob(900.0 * unit, {"map": 20, "sink": 20}, unit=unit) for unit in (0.001, 1.0))
    for job in (few, many):
        job.run(flink(1.0, 0.0), 6)
    assert few.parallelism == many.parallelism == {"map": 10, "sink": 6}


def test_propose_when_runs_alternate_then_each_has_its_own_session() -> None:
    tuner = flink()
    alone = FluidJob(1000.0, {"map": 5, "sink": 3})
    alone.run(tuner, 5)
    first, second = FluidJob(1000.0, {"map": 5, "sink": 3}), FluidJob(100.0, {"map": 30, "sink": 30})
    memories: list[dict[str, object]] = [{}, {}]
    for _ in range(5):
        for n, job in enumerate((first, second)):
            _, memories[n] = job.look(tuner, memories[n])  # type: ignore[assignment]
    assert first.parallelism == alone.parallelism
    assert second.parallelism == {"map": 2, "sink": 1}
    assert memories[0] != memories[1]


def test_propose_when_an_operator_was_not_measured_then_leaves_it_alone() -> None:
    job, tuner, memory = FluidJob(1000.0, {"map": 5, "sink": 3}), flink(), {}
    for _ in range(3):
        signals = job.period()
        source, middle, sink = signals.apps[0].operators
        app = replace(signals.apps[0], operators=(source, replace(middle, busy_ratio=None), sink))
        proposal, memory = tuner.propose(replace(signals, apps=(app,)), deployed(job.parallelism), memory)
    assert {c.operator for c in proposal.changes} <= {"sink"}


def test_propose_when_an_operator_vanishes_and_returns_then_continues() -> None:
    job, tuner = FluidJob(1000.0, {"map": 15, "sink": 9}), flink()
    memory = job.run(tuner, 2)
    signals = job.period()
    app = replace(signals.apps[0], operators=signals.apps[0].operators[:2])
    _, memory = tuner.propose(replace(signals, apps=(app,)), deployed(job.parallelism), memory)
    job.run(tuner, 3, memory)
    assert job.scaled == 0


def test_propose_when_the_app_is_not_a_pipelined_job_then_says_so_without_a_session() -> None:
    signals = FluidJob(1000.0, {"map": 5, "sink": 3}).period()
    proposal, memory = flink().propose(signals, deployed({}), {})
    assert (proposal.reason_code, proposal.changes, memory) == ("not_pipelined", (), {"sessions": {}})


def test_propose_when_the_session_is_unknown_then_says_so() -> None:
    job = FluidJob(1000.0, {"map": 5, "sink": 3})
    with pytest.raises(MillraceError, match="no session 1-none"):
        flink().propose(job.period(), deployed(job.parallelism), {"sessions": {"job": "1-none"}})


def test_propose_when_time_does_not_advance_then_says_so() -> None:
    job, tuner = FluidJob(1000.0, {"map": 5, "sink": 3}), flink()
    signals = job.period()
    _, memory = tuner.propose(signals, deployed(job.parallelism), {})
    earlier = replace(signals, until=signals.until - timedelta(seconds=1))
    with pytest.raises(MillraceError, match="came after one at"):
        tuner.propose(earlier, deployed(job.parallelism), memory)


def test_ask_when_the_autoscaler_swallows_an_error_then_it_is_still_reported() -> None:
    options = {"job.autoscaler.target.utilization": "much", "job.autoscaler.stabilization.interval": "0 s"}
    Jvm.shared().ask({"op": "open", "session": "bad", "options": options, "downtime_ms": 0, "window_looks": 1})
    look = {"op": "look", "session": "bad", "period_ms": 1000, "min_parallelism": 1, "max_parallelism": 9}
    vertex = {"id": "a", "inputs": [], "sized": True, "parallelism": 1, "busy_ratio": 0.5, "rows_in_per_s": 9.0}
    Jvm.shared().ask({**look, "time_ms": 1000, "vertices": [vertex]})
    with pytest.raises(MillraceError, match="the autoscaler failed"):
        Jvm.shared().ask({**look, "time_ms": 2000, "vertices": [vertex]})


def test_propose_when_the_jvm_was_ended_then_the_next_run_has_another() -> None:
    tuner, job = flink(), FluidJob(1000.0, {"map": 5, "sink": 3})
    memory = job.run(tuner, 1)
    Jvm.shared().close()
    with pytest.raises(MillraceError, match="no session"):
        job.run(tuner, 1, memory)
    again = FluidJob(1000.0, {"map": 5, "sink": 3})
    again.run(tuner, 4)
    assert again.suffices()
