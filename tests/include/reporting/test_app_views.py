from __future__ import annotations

from dataclasses import replace

from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.signals import Edge
from millrace.optimizers.conformance.builders import app_signals, capacity, deployment, signals
from millrace.reporting.app_views import HEADINGS, app_views

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
