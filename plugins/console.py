"""The page *Millrace* in Airflow's navigation: an overview of all pipelines, and measurements and changes of each."""

from __future__ import annotations

import os
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from urllib.parse import quote

from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.plugins_manager import AirflowPlugin
from fastapi import Depends, FastAPI, Query
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from millrace.lake.control_tables import ControlTables
    from millrace.model.deployment import Deployment
    from millrace.model.spec import PipelineSpec
    from millrace.model.telemetry import ExecutorRun

ROWS, EXECUTORS, REPLAYS, MOMENTS_AT_A_GLANCE, STREAMS = 50, 20, 5, 60, 15
EXECUTORS_SEEN = timedelta(days=30)
"""Look back this far for executors; telemetry is kept for as long."""
NOTHING: dict[str, Any] = {"names": [], "rows": [], "spec_problems": [], "problem": None}


class Span(StrEnum):
    """Time span of the figure."""

    HOUR = "1h"
    HOURS = "6h"
    DAY = "24h"
    WEEK = "7d"


SPANS = {
    Span.HOUR: timedelta(hours=1),
    Span.HOURS: timedelta(hours=6),
    Span.DAY: timedelta(days=1),
    Span.WEEK: timedelta(days=7),
}
NARROWEST = timedelta(minutes=5)
"""Shortest time shown. For a pipeline younger than the span, the figure shows its whole life."""
SECURITY_HEADERS = {
    # no script runs on this page, whatever a name or an error message contains
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

pages = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")), autoescape=True, undefined=StrictUndefined
)
# a plugin's app is open to everybody unless it checks the caller; its own docs pages would not check
may_read = Depends(requires_access_dag("GET"))
app = FastAPI(title="Millrace", dependencies=[may_read], docs_url=None, redoc_url=None, openapi_url=None)


@app.get("/", response_class=HTMLResponse)
def page(
    pipeline: Annotated[str | None, Query(max_length=63)] = None, span: Annotated[Span, Query()] = Span.HOURS
) -> HTMLResponse:
    """Return the page of one pipeline, or the overview of all."""
    from millrace.model.contingency import describe
    from millrace.model.errors import MillraceError

    try:
        content, status = (_overview() if pipeline is None else _pipeline(pipeline, span)), 200
    except MillraceError as problem:
        content, status = {"problem": str(problem)}, 503
    template = pages.get_template("pipelines.html" if pipeline is None else "pipeline.html")
    shown = {**NOTHING, "chosen": pipeline, "described": describe, **content}
    return HTMLResponse(template.render(shown), status, SECURITY_HEADERS)


def _overview() -> dict[str, Any]:
    from millrace.control.pending_decision import pending
    from millrace.reporting.app_views import slots_of
    from millrace.reporting.history import histories
    from millrace.reporting.history_figure import spark
    from millrace.wiring import control_tables, problem, query_failures, restart_needed, utc_now

    tables, now = control_tables(), utc_now()
    specs, problems, launched = _known(tables)
    names = sorted({*specs, *launched})
    rows, past = [], histories(tables, names, now - SPANS[Span.HOURS], now, MOMENTS_AT_A_GLANCE)
    for name in names:
        spec, current = specs.get(name), launched.get(name)
        rows.append(
            {
                "name": name,
                "mode": spec.mode if spec else None,
                "current": current,
                "slots": "–" if current is None else slots_of(current),
                "not_running": problem(current, tables.deployments, spec) if current else None,
                "restart": restart_needed(current, tables, spec) if current else None,
                "failed": query_failures(name, current.apps) if current else (),
                "newest": next(iter(tables.decisions.recent(name, 1)), None),
                "waiting": pending(spec, tables, now) if spec else [],
                "history": past[name],
                "cost": spec.cost if spec else None,
                "spark": spark(past[name]),
            }
        )
    return {"names": names, "rows": rows, "spec_problems": problems}


def _pipeline(chosen: str, span: Span) -> dict[str, Any]:
    from millrace.control.pending_decision import pending
    from millrace.reporting.history import history
    from millrace.reporting.history_figure import figure
    from millrace.wiring import control_tables, problem, query_failures, restart_needed, utc_now

    tables, now = control_tables(), utc_now()
    specs, problems, launched = _known(tables)
    names = sorted({*specs, *launched})
    if chosen not in names:
        return {"names": names, "problem": f"There is no pipeline {chosen}."}
    spec, past = specs.get(chosen), history(tables, chosen, _shown_since(tables, chosen, span, now), now)
    return {
        "names": names,
        "spec": spec,
        "spec_problems": problems,
        "current": launched.get(chosen),
        "not_running": None if chosen not in launched else problem(launched[chosen], tables.deployments, spec),
        "restart": None if chosen not in launched else restart_needed(launched[chosen], tables, spec),
        "failed": () if chosen not in launched else query_failures(chosen, launched[chosen].apps),
        "waiting": pending(spec, tables, now) if spec else [],
        **_apps(launched.get(chosen), tables),
        **_fleet(spec, launched.get(chosen), tables),
        "spans": list(Span),
        "span": span,
        "history": past,
        "figure": figure(past),
        "decisions": tables.decisions.with_runs(tables.decisions.recent(chosen, ROWS)),
        "deployments": [deployment for _, deployment in tables.deployments.versions(chosen, ROWS)],
        "reconfigurations": tables.reconfigurations.recent(chosen, ROWS),
        "replays": tables.replays.recent(chosen, REPLAYS),
        "executors": _executors(tables, chosen, now),
        **_placement(spec, launched.get(chosen), tables),
        "mlflow_run": _mlflow_run,
    }


def _known(tables: ControlTables) -> tuple[Mapping[str, PipelineSpec], list[str], dict[str, Deployment]]:
    """Return the valid specs by name, the problems of the others, and the newest Deployments by name."""
    from millrace.pipelines.catalog import load_all

    specs, problems = load_all()
    launched = {deployment.pipeline: deployment for deployment in tables.deployments.all_latest()}
    return specs, [str(problem) for problem in problems], launched


def _shown_since(tables: ControlTables, chosen: str, span: Span, now: datetime) -> datetime:
    launched, begin = tables.deployments.committed_at(chosen, 1), now - SPANS[span]
    return begin if launched is None else max(begin, min(launched, now - NARROWEST))


def _executors(tables: ControlTables, chosen: str, now: datetime) -> list[tuple[ExecutorRun, bool]]:
    """Return recent executors, and whether each may run: those of the apps' newest drivers first, the newest first."""
    from millrace.lake.executor_runs import executor_runs

    runs = executor_runs(tables.lake, chosen, now - EXECUTORS_SEEN)
    ended = sorted(runs, key=lambda run: run.ended or run.started, reverse=True)
    newest: dict[str, int] = {}
    for run in runs:
        newest[run.app] = max(run.generation, newest.get(run.app, 0))
    found = [(run, run.ended is None and run.generation == newest[run.app]) for run in ended]
    return sorted(found, key=lambda each: not each[1])[:EXECUTORS]


def _apps(current: Deployment | None, tables: ControlTables) -> dict[str, Any]:
    """Return the apps of a pipeline of several, and a drawing of them."""
    from millrace.reporting.app_graph import app_graph
    from millrace.reporting.app_views import app_views

    apps = [] if current is None else app_views(current, tables.decisions.last_signals)
    return {"apps": apps, "graph": app_graph(apps)}


def _fleet(spec: PipelineSpec | None, current: Deployment | None, tables: ControlTables) -> dict[str, Any]:
    """Return the nodes and streams of a fleet, and drawings of them; no apps if it has none but its nodes."""
    from millrace.reporting.fleet_figure import forecast_figure, stream_map
    from millrace.reporting.fleet_view import load_text
    from millrace.wiring import fleet

    if spec is None or spec.fleet is None or current is None:
        return {"fleet": None, "nodes": () if spec is None or spec.fleet is None else spec.fleet.node_names}
    view = fleet(spec, current, tables, ask_brokers=False)
    nodes = [node.name for node in view.nodes]
    only_nodes = {"apps": [], "graph": ""} if len(nodes) == len(current.apps) else {}
    return {
        "fleet": view,
        "nodes": nodes,
        "sizes": sorted({(current.apps[node].slots, current.apps[node].memory_mb) for node in nodes}),
        "stream_map": stream_map(view),
        "forecast": forecast_figure(view.plan),
        "listed": view.listed(STREAMS),
        "load_text": load_text,
        **only_nodes,
    }


def _placement(spec: PipelineSpec | None, current: Deployment | None, tables: ControlTables) -> dict[str, Any]:
    """Return the cost of state partitions on their executors, if it was measured recently."""
    from millrace.control.partition_loads import partition_loads
    from millrace.reporting.heat_map import heat_maps
    from millrace.wiring import utc_now

    app = current.apps.get(spec.app) if spec and current else None
    groups = partition_loads(spec, tables.lake, utc_now()) if spec and app and app.executor else None
    if groups is None or app is None:
        return {"heat_maps": [], "stateful_batch_s": None}
    return {"heat_maps": heat_maps(groups), "stateful_batch_s": groups.stateful_batch_s(app.slots_per_executor)}


def _mlflow_run(run_id: str) -> str | None:
    """Return the address of a run's page; None if MLflow has no web address."""
    uri = os.environ.get("MILLRACE_MLFLOW_URL") or os.environ.get("MLFLOW_TRACKING_URI", "")
    return f"{uri.rstrip('/')}/#/runs/{quote(run_id, safe='')}" if uri.startswith(("http://", "https://")) else None


class MillraceConsole(AirflowPlugin):
    """Register the page."""

    name = "millrace"
    fastapi_apps: ClassVar = [{"app": app, "url_prefix": "/millrace", "name": "Millrace"}]
    # without a url_route it opens as a separate page: Airflow's frame would block the links to MLflow
    # relative, as Airflow may be served below a path
    external_views: ClassVar = [{"name": "Millrace", "href": "millrace/", "destination": "nav"}]
