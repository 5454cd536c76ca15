from __future__ import annotations

from dataclasses import replace

from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.signals import Edge
from millrace.optimizers.conformance.builders import app_signals, capacity, deployment, signals
from millrace.reporting.app_views import HEADINGS, NOT_NEEDED, app_views, in_short, slots_of
from tests.include.reporting.fleets import deployed

APPS = {name: AppDeployment("x.py", (), 2, 1024, 8) for name in ("count", "clean")}
CURRENT = Deployment("flights", 1, True, APPS)


def test_apps_that_feed_others_come_first_with_the_rates_that_they_pass_on() -> None:
    each = tuple(app_signals(2, 60.0, capacity(2, 100.0), app=name, backlog_rows=1200) for name in APPS)
    seen = replace(signals(each[0]), apps=each, edges=(Edge("clean", "count", 58.4),))
    clean, count = (view.cells() for view in app_views(CURRENT, lambda _: seen))
    assert clean[:3] + clean[4:] == ["clean", "2", "60", "1,200", "count (58 rows/s)"]
    assert count[-1] == "no other app" and len(count) == len(HEADINGS)


def test_apps_that_were_not_measured_show_no_figures() -> None:
    assert [view.cells()[2:5] for view in app_views(CURRENT, lambda _: None)] == [["unknown"] * 3] * 2


def test_pipeline_of_one_app_has_no_table() -> None:
    assert app_views(deployment(2), lambda _: None) == []


def test_app_that_is_not_needed_now_says_so_instead_of_figures() -> None:
    fleet = deployed({"orders": 1}, nodes=3)
    assert [view.cells()[1] for view in app_views(fleet, lambda _: None)] == ["2", "2", NOT_NEEDED]
    assert slots_of(fleet) == "2, 2"
    stopped = replace(fleet, running=False)
    assert all(view.needed for view in app_views(stopped, lambda _: None)) and slots_of(stopped) == "2, 2, 2"


def test_many_apps_are_counted_in_one_line() -> None:
    assert in_short(["2", "4"], ["a", "b"]) == "a 2, b 4"
    assert in_short(["2", "2", "2", "4"], list("abcd")) == "3 x 2, 1 x 4"
    assert in_short([]) == "none"
