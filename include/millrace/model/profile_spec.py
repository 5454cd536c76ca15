"""The section ``profile`` of a pipeline spec: the input streams of the source table."""

from __future__ import annotations

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from millrace.model.spec_base import Strict


class Profile(Strict):
    """The scheduled batch job that counts the rows of each input stream in the source table."""

    source: str = Field(
        description="Folder of the Delta source table, absolute or relative to the spec's folder; ${MILLRACE_HOME} is "
        "replaced"
    )
    time_column: str = Field(description="Event-time column")
    period_s: int = Field(60, ge=1, description="Length of the counting periods, seconds of event time")
    stream: tuple[str, ...] = Field(min_length=1, description="Columns whose values together identify an input stream")
    schedule: str = Field("*/10 * * * *", description="Cron expression of the DAG profile_<pipeline>")

    @field_validator("schedule")
    @classmethod
    def _is_cron(cls, schedule: str) -> str:
        from croniter import croniter  # Airflow reads the expression with the same library, at import of the DAG

        if not croniter.is_valid(schedule):
            raise PydanticCustomError("cron", "a cron expression of five fields such as */10 * * * *, or @hourly")
        return schedule
