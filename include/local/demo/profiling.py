"""The demo's last part, when the processors are free: what the source is made of, and what a look advises on it."""

from __future__ import annotations

import time

from include.local.demo.pulse import PulseReader
from include.local.demo.view import View
from include.local.stack.airflow_api import AirflowApi
from include.model.decision import Decision
from include.model.spec import PipelineSpec

PATIENCE_S = 180.0
LOOK_EVERY_S = 0.5
PLANS = ("placement", "admission")
"""What is planned on a profile: sections of a spec, and what proposals bring."""


def profiled(view: View, api: AirflowApi, reader: PulseReader, spec: PipelineSpec) -> str | None:
    """Run the pipeline's profile and show the looks that plan on it; return what went wrong, if anything did.

    Args:
        view: Where to show it.
        api: The stack's Airflow.
        reader: Of the pipeline's Decisions.
        spec: The pipeline.

    Raises:
        MillraceError: If Airflow does not answer.
    """
    dag_id = f"profile_{spec.name}"
    view.still()
    view.step(f"Triggering the DAG {dag_id}: a Spark batch job counts what each key and stream brought")
    view.step("and the look after it advises where they would go; it changes nothing")
    api.set_paused(dag_id, False)
    run = api.trigger(dag_id)
    missing = {name for name in PLANS if getattr(spec, name) is not None}
    deadline = time.monotonic() + PATIENCE_S
    while missing and time.monotonic() < deadline:
        for decision in reader.new_decisions():
            view.decision(decision)
            missing -= planned(decision)
        # a run of the schedule may have come first, and have counted everything
        if api.run(dag_id, run)["state"] == "failed":
            return f"{dag_id} failed: its log is in Airflow"
        time.sleep(LOOK_EVERY_S)
    return f"no {' and no '.join(sorted(missing))} was advised within {PATIENCE_S:g} s" if missing else None


def planned(decision: Decision) -> set[str]:
    """Return what a look planned on a profile."""
    return {name for name in PLANS for proposal in decision.proposals if getattr(proposal, name) is not None}
