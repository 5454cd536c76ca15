"""The page *Millrace* in Airflow's navigation: what was decided, what is wanted, what happened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from urllib.parse import quote

from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.plugins_manager import AirflowPlugin
from fastapi import Depends, FastAPI, Query
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

if TYPE_CHECKING:
    from include.lake.control_tables import ControlTables
    from include.model.deployment import Deployment
    from include.model.spec import PipelineSpec

ROWS = 50
SECURITY_HEADERS = {
    # no script runs on this page, whatever a script's name or an error's text may hold
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

pages = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")), autoescape=True, undefined=StrictUndefined
)
# a plugin's app is open to everybody unless it asks who calls; its own docs pages would not ask
may_read = Depends(requires_access_dag("GET"))
app = FastAPI(title="Millrace", dependencies=[may_read], docs_url=None, redoc_url=None, openapi_url=None)


@app.get("/", response_class=HTMLResponse)
def overview(pipeline: Annotated[str | None, Query(max_length=63)] = None) -> HTMLResponse:
    """Return the page of one pipeline, by default the first."""
    from include.model.errors import MillraceError

    try:
        content, status = _content(pipeline), 200
    except MillraceError as problem:
        content, status = {**_nothing(pipeline), "problem": str(problem)}, 503
    return HTMLResponse(pages.get_template("console.html").render(content), status, SECURITY_HEADERS)


def _content(pipeline: str | None) -> dict[str, Any]:
    from include.pipelines.catalog import load_all
    from include.wiring import control_tables, problem

    tables = control_tables()
    specs, problems = load_all()
    launched = {deployment.pipeline: deployment for deployment in tables.deployments.all_latest()}
    names = sorted({*specs, *launched})
    chosen = pipeline or next(iter(names), None)
    if chosen not in names:
        return {**_nothing(chosen), "names": names, "problem": f"There is no pipeline {chosen}." if chosen else None}
    return {
        "names": names,
        "chosen": chosen,
        "spec": specs.get(chosen),
        "spec_problems": [str(problem) for problem in problems],
        "current": launched.get(chosen),
        "not_running": None if chosen not in launched else problem(launched[chosen], tables.deployments),
        "decisions": tables.decisions.with_runs(tables.decisions.recent(chosen, ROWS)),
        "deployments": [deployment for _, deployment in tables.deployments.versions(chosen, ROWS)],
        "reconfigurations": tables.reconfigurations.recent(chosen, ROWS),
        **_placement(specs.get(chosen), launched.get(chosen), tables),
        "mlflow_run": _mlflow_run,
        "problem": None,
    }


def _placement(spec: PipelineSpec | None, current: Deployment | None, tables: ControlTables) -> dict[str, Any]:
    """Return what state partitions cost on the workers where they run, as far as they were measured lately."""
    from include.control.key_groups import key_groups
    from include.reporting.heat_map import heat_maps
    from include.wiring import utc_now

    size = current.apps[spec.app].executor if spec and current and spec.app in current.apps else None
    groups = key_groups(spec, tables.lake, utc_now()) if spec and size else None
    if groups is None or size is None:
        return {"heat_maps": [], "stateful_batch_s": None}
    return {"heat_maps": heat_maps(groups), "stateful_batch_s": groups.stateful_batch_s(size.cores)}


def _nothing(pipeline: str | None) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(("spec", "current", "not_running", "stateful_batch_s"))
    lists: dict[str, Any] = {
        name: [] for name in ("names", "spec_problems", "decisions", "deployments", "reconfigurations", "heat_maps")
    }
    return {**empty, **lists, "chosen": pipeline, "mlflow_run": _mlflow_run}


def _mlflow_run(run_id: str) -> str | None:
    """Return the address of a run's page; None where MLflow has none that a browser can open."""
    uri = os.environ.get("MILLRACE_MLFLOW_URL") or os.environ.get("MLFLOW_TRACKING_URI", "")
    return f"{uri.rstrip('/')}/#/runs/{quote(run_id, safe='')}" if uri.startswith(("http://", "https://")) else None


class MillraceConsole(AirflowPlugin):
    """Registers the page."""

    name = "millrace"
    fastapi_apps: ClassVar = [{"app": app, "url_prefix": "/millrace", "name": "Millrace"}]
    # without a url_route it opens as a page of its own: Airflow's frame would block the links to MLflow
    external_views: ClassVar = [{"name": "Millrace", "href": "/millrace/", "destination": "nav"}]
