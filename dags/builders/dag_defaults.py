"""Shared by the DAGs of all pipelines: settings, form fields, and the task bodies that two of them use."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, Param
from airflow.sdk.configuration import conf

from millrace.model.spec import PipelineSpec
from millrace.plugins.airflow_secrets import airflow_secret
from millrace.plugins.outcomes import as_airflow, report_changes

OWNER = "millrace"


def dag_settings(kind: str, *, pipeline: str | None = None) -> dict[str, Any]:
    """Return the arguments that every DAG gets.

    Args:
        kind: Kind of the DAG; also its tag.
        pipeline: Name of its pipeline; None for DAGs of all pipelines.
    """
    base_url = conf.get("api", "base_url", fallback="")
    console = f"{base_url.rstrip('/')}/millrace/" + (f"?pipeline={pipeline}" if pipeline else "")
    return {
        "catchup": False,
        "is_paused_upon_creation": False,
        "tags": [OWNER, kind, *([pipeline] if pipeline else [])],
        "default_args": {"owner": OWNER, "retries": 1, "retry_delay": timedelta(seconds=5)},
        "owner_links": {OWNER: console} if base_url.startswith("http") else {},
    }


def slots_params(spec: PipelineSpec, description: str) -> dict[str, Param]:
    """Return the form fields for slots: empty, or within the spec's bounds; with several apps, also whose they are."""
    every = spec.bounds_by_app().values()
    bounds = {
        "minimum": min(allowed.min_slots for allowed in every),
        "maximum": max(allowed.max_slots for allowed in every),
        "multipleOf": math.gcd(*(allowed.step for allowed in every)),
    }
    slots = Param(None, type=["null", "integer"], **bounds, title="Slots", description=description)
    if not spec.apps:
        return {"slots": slots}
    app = Param(
        None, type=["null", "string"], enum=[None, *spec.apps], title="App", description="App that gets the slots"
    )
    return {"slots": slots, "app": app}


def decisions_asset(spec: PipelineSpec) -> Asset:
    """Return the Asset whose events are a pipeline's Decisions. Other DAGs may follow them."""
    return Asset(f"decisions_{spec.name}")


def reconfigurations_asset(spec: PipelineSpec) -> Asset:
    """Return the Asset whose events are applied Decisions and launches of a pipeline."""
    return Asset(f"reconfigurations_{spec.name}")


def longest_change(spec: PipelineSpec) -> timedelta:
    """Return how long a reconfiguration may take."""
    return timedelta(seconds=spec.longest_change_s)


def apply_decision(spec: PipelineSpec, decision_id: str, approved_by: str | None = None) -> list[str]:
    """Apply a Decision and return the changes; fail if the pipeline does not run afterwards although it should."""
    from millrace.wiring import control_loop, control_tables, reconciler_for

    with as_airflow():
        changes = control_loop(spec, airflow_secret).apply(decision_id, approved_by)
        return report_changes(spec, changes, reconciler_for(spec, control_tables()).problem())
