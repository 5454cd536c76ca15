"""The demo of a chain of apps: what it shows of a run with known results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.local.demo.checks import checks
from millrace.local.demo.figures import cards, figures
from millrace.local.demo.labels import sizes_text
from millrace.local.demo.live_stats import LiveStatsReader
from millrace.local.demo.report import page
from millrace.local.demo.terminal import decision_cells, parallelism
from millrace.local.demo.timeline import Timeline, read_timeline
from millrace.model.decision import Action, Decision, Outcome, Proposal, Reconfiguration
from millrace.model.deployment import Change
from millrace.model.signals import Edge
from millrace.optimizers.conformance.builders import app_signals, capacity, signals
from millrace.run_folder import driver_records
from millrace.run_folder.driver_records import DriverRecord, DriverState
from tests.include.local.demo.synthetic import Run, at, spec_of

SMALL, LARGE = {"clean": 2, "delays": 2}, {"clean": 4, "delays": 6}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    spec = spec_of(apps={name: {} for name in SMALL})
    return Run(spec, Lake(tmp_path / "lake"), tmp_path / "source", monkeypatch)


def decide(run: Run, time_s: float, before: Mapping[str, int], after: Mapping[str, int]) -> Decision:
    tables = ControlTables(run.lake)
    latest = tables.deployments.latest("delays")
    assert latest is not None
    apps = tuple(app_signals(n, 60.0, capacity(n, 100.0 * n), app=app) for app, n in before.items())
    seen = replace(signals(apps[0]), pipeline="delays", apps=apps, edges=(Edge("clean", "delays", 58.0),))
    changes = tuple(Change(app, "slots", before[app], n) for app, n in after.items() if n != before[app])
    decision = Decision(
        f"{at(time_s):%Y%m%dT%H%M%S}-00000{int(time_s) % 10}", "delays", at(time_s),
        Action.APPLY if changes else Action.HOLD, "test", "60 rows/s arrive.", seen, latest.version,
        (Proposal("flow", changes, "test", "60 rows/s arrive."),), target=latest.with_changes(changes),
    )  # fmt: skip
    tables.decisions.record(decision)
    return decision


def change(
    run: Run, start_s: float, ready_s: float, slots: Mapping[str, int], by: Decision | None = None, tier: str = "T1"
) -> None:
    tables = ControlTables(run.lake)
    latest = tables.deployments.latest("delays")
    content = latest or run.spec.first_deployment()
    apps = {name: replace(content.apps[name], slots=n) for name, n in slots.items()}
    made = tables.deployments.commit(replace(content, apps=apps), latest.version if latest else None)
    for app in slots:
        tables.reconfigurations.record(
            Reconfiguration(
                "delays", app, by.decision_id if by else None, tier, latest.version if latest else None, made.version,
                1, at(start_s), at(ready_s), None, Outcome.READY,
            )
        )  # fmt: skip


def grown(run: Run, tier: str = "T1") -> Timeline:
    run.arrive(1, 100)
    change(run, 0, 5, SMALL, tier="T2")
    change(run, 20, 24, LARGE, decide(run, 20, SMALL, LARGE), tier)
    change(run, 60, 62, SMALL, decide(run, 60, LARGE, SMALL))
    return read_timeline(run.spec, ControlTables(run.lake), run.source, at(100))


def test_slots_of_all_apps_are_summed_and_known_for_each(run: Run) -> None:
    line = grown(run)
    times = np.array([10.0, 30.0, 70.0])
    assert line.slots(times).tolist() == [4, 10, 4]
    assert line.slots(times, "delays").tolist() == [2, 6, 2]
    found = figures(run.spec, line)
    assert (found.slots_least, found.slots_most, found.reconfigurations) == (4, 10, 2)
    assert found.core_s == pytest.approx(2 * 24 + 4 * 42 + 2 * 38 + 2 * 24 + 6 * 42 + 2 * 38)
    shown = [text for _, text in cards(run.spec, found)]
    assert any(text.startswith("compared with 10 slots all the time") for text in shown)
    assert not any("modelled" in text for text in shown), "the model of fixed sizes is of one app"


def test_rows_count_as_processed_when_the_last_app_has_processed_them(run: Run) -> None:
    line = grown(run)
    assert line.batch_rows.size == 0
    assert line.oldest_waiting_s(np.array([11.0])).tolist() == [10.0]


def test_checks_want_one_decision_for_all_apps_and_no_restart(run: Run) -> None:
    held = {check.claim: check for check in checks(grown(run), None)}
    assert held["One decision gave all apps more slots"].detail.startswith("clean 2 to 4, delays 2 to 6")
    assert held["No driver was restarted"].held
    assert "clean 2 to 4 slots" in held["It scaled up automatically"].detail
    assert held["It scaled down automatically"].held


def test_checks_fail_if_a_driver_was_restarted(run: Run) -> None:
    held = {check.claim: check for check in checks(grown(run, "T2"), None)}
    assert not held["No driver was restarted"].held
    assert "clean restarted for version 2" in held["No driver was restarted"].detail


def test_checks_fail_if_the_apps_grew_one_after_the_other(run: Run) -> None:
    change(run, 0, 5, SMALL, tier="T2")
    change(run, 20, 24, {**SMALL, "clean": 4}, decide(run, 20, SMALL, {**SMALL, "clean": 4}))
    change(run, 40, 44, LARGE, decide(run, 40, {**SMALL, "clean": 4}, LARGE))
    line = read_timeline(run.spec, ControlTables(run.lake), run.source, at(100))
    assert not next(c for c in checks(line, None) if c.claim == "One decision gave all apps more slots").held


def test_report_draws_the_apps_and_names_them(run: Run) -> None:
    line = grown(run)
    text = page(run.spec, line, figures(run.spec, line), checks(line, None))
    assert text.count('<svg class="apps"') == 1, "the last evaluation is also the last one at the most slots"
    for shown in ("clean: 4 slots", "delays: 6 slots", "58 rows/s", "clean 2 → 4, delays 2 → 6", "slots of clean"):
        assert shown in text
    assert "<h2>Advice</h2>" not in text


def test_live_view_names_the_slots_of_each_app(run: Run, tmp_path: Path) -> None:
    run.arrive(1, 100)
    reader = LiveStatsReader(run.spec, ControlTables(run.lake), tmp_path, run.source, at(0), clock=lambda: 0.0)
    for app, slots in LARGE.items():
        driver_records.write(tmp_path, DriverRecord("delays", app, 1, 1, slots, 1, 0.0, DriverState.RUNNING, at(0)))
    change(run, 0, 5, SMALL, tier="T2")
    decision = decide(run, 20, SMALL, LARGE)
    stats = reader.read()
    assert parallelism(stats) == "10 slots (clean 4, delays 6)"
    assert [d.decision_id for d in reader.new_decisions()] == [decision.decision_id]
    assert [str(cell).strip() for cell in decision_cells(20, decision, tuple(SMALL))][1] == "4 → 10"


def test_failed_start_of_one_app_is_not_hidden_by_another(run: Run, tmp_path: Path) -> None:
    run.arrive(1, 100)
    change(run, 0, 5, SMALL, tier="T2")
    store = ControlTables(run.lake).reconfigurations
    broken = next(c for c in store.recent("delays") if c.app == "clean")
    store.record(replace(broken, started=at(10), ended=at(11), outcome=Outcome.CIRCUIT_OPEN, error="no module x"))
    other = next(c for c in store.recent("delays") if c.app == "delays")
    store.record(replace(other, started=at(20), ended=at(21)))
    reader = LiveStatsReader(run.spec, ControlTables(run.lake), tmp_path, run.source, at(0), clock=lambda: 0.0)
    assert reader.read().circuit_open == "no module x"


@pytest.mark.parametrize(
    ("sizes", "text"),
    [({"a": (2, 4)}, "2 → 4"), ({"a": (2, 4), "b": (2, 2)}, "a 2 → 4, b 2"), ({"a": (None, None)}, "")],
)
def test_sizes_as_text(sizes: Mapping[str, tuple[int | None, int | None]], text: str) -> None:
    assert sizes_text(sizes) == text
