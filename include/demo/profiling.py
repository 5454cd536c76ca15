"""The demo's last part, when the processors are free: what the source is made of, and what a look advises on it."""

from __future__ import annotations

import time

from include.contracts.decision import Decision
from include.demo.pulse import PulseReader
from include.demo.view import View
from include.pipelines.spec import PipelineSpec
from include.stack.airflow_api import AirflowApi

LOOK_WITHIN_S = 90.0
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
    api.set_paused(dag_id, False)
    if api.wait_for_run(dag_id, api.trigger(dag_id)) != "success":
        return f"{dag_id} failed: its log is in Airflow"
    view.step("Counted; the next look advises on it, and changes nothing")
    missing = {name for name in PLANS if getattr(spec, name) is not None}
    deadline = time.monotonic() + LOOK_WITHIN_S
    while missing and time.monotonic() < deadline:
        for decision in reader.new_decisions():
            view.decision(decision)
            missing -= planned(decision)
        time.sleep(LOOK_EVERY_S)
    return f"no {' and no '.join(sorted(missing))} was advised within {LOOK_WITHIN_S:g} s" if missing else None


def planned(decision: Decision) -> set[str]:
    """Return what a look planned on a profile."""
    return {name for name in PLANS for proposal in decision.proposals if getattr(proposal, name) is not None}
