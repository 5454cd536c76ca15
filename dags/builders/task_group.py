"""A pipeline inside a DAG of yours: launch it there, evaluate it there, or both."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import TaskGroup, TriggerRule

from millrace.dags.builders import adapt
from millrace.dags.builders.launch import add_tasks as add_launch
from millrace.model.errors import MillraceError
from millrace.pipelines.catalog import find


class MillraceTaskGroup(TaskGroup):
    """The tasks of ``launch_NAME`` and of one evaluation in ``adapt_NAME``, for example after a table was loaded.

    The pipeline keeps its own DAGs: telemetry still starts evaluations in ``adapt_NAME`` unless that DAG is paused, and
    changes that need approval are asked for in ``approve_NAME``.

    Args:
        pipeline: Name of the pipeline. Its spec is read when the DAG is parsed.
        launch: Launch it as its spec says; nothing changes if it runs already.
        evaluate: Evaluate it once, after the launch if there is one. Without new telemetry, the evaluation is skipped.
        group_id: Name of the group; the pipeline's name by default.
        settings: Further arguments of Airflow's TaskGroup.

    Raises:
        MillraceError: If there is no such pipeline, its spec is invalid, or the group would have no tasks.
    """

    def __init__(
        self,
        pipeline: str,
        *,
        launch: bool = True,
        evaluate: bool = True,
        group_id: str | None = None,
        **settings: Any,
    ) -> None:
        if not (launch or evaluate):
            raise MillraceError(
                "launch, evaluate", "False, False", "at least one of them True", "Leave one of them out."
            )
        spec = find(pipeline)
        super().__init__(group_id or pipeline, tooltip=settings.pop("tooltip", spec.description), **settings)
        with self:
            launched = add_launch(spec, form=False) if launch else None
            observed = adapt.add_tasks(spec, form=False) if evaluate else None
            if launched is not None and observed is not None:
                launched >> observed
            # most evaluations skip their last tasks; the tasks after the group must still run
            ends = [task for task in self.children.values() if not task.downstream_task_ids]
            ends >> EmptyOperator(task_id="done", trigger_rule=TriggerRule.NONE_FAILED)
