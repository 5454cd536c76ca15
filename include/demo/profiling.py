"""The demo's last part, when the processors are free: what the source is made of, and what a look advises on it."""

from __future__ import annotations

import time

from include.contracts.decision import Decision
from include.demo.pulse import PulseReader
from include.demo.view import View
from include.stack.airflow_api import AirflowApi

LOOK_WITHIN_S = 90.0
LOOK_EVERY_S = 0.5


def profiled(view: View, api: AirflowApi, reader: PulseReader, pipeline: str) -> str | None:
    """Run the pipeline's profile and show the look that follows it; return what went wrong, if anything did.

    Args:
        view: Where to show it.
        api: The stack's Airflow.
        reader: Of the pipeline's Decisions.
        pipeline: Its name.

    Raises:
        MillraceError: If Airflow does not answer.
    """
    dag_id = f"profile_{pipeline}"
    view.still()
    view.step(f"Triggering the DAG {dag_id}: a Spark batch job counts what each key and stream brought")
    api.set_paused(dag_id, False)
    if api.wait_for_run(dag_id, api.trigger(dag_id)) != "success":
        return f"{dag_id} failed: its log is in Airflow"
    view.step("Counted; the next look advises on it, and changes nothing")
    deadline = time.monotonic() + LOOK_WITHIN_S
    while time.monotonic() < deadline:
        for decision in reader.new_decisions():
            view.decision(decision)
            if advises(decision):
                return None
        time.sleep(LOOK_EVERY_S)
    return f"no look advised on the profile within {LOOK_WITHIN_S:g} s"


def advises(decision: Decision) -> bool:
    """Say whether a look planned on a profile."""
    return any(proposal.placement is not None for proposal in decision.proposals)
