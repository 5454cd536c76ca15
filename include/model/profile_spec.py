"""The sections ``profile`` and ``placement`` of a pipeline spec: key groups and streams, and where groups may sit."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from include.model.spec_base import NAME, Strict


class KeyedOperator(Strict):
    """A keyed operator that ``profile`` measures: its key columns and number of key groups."""

    name: Annotated[str, Field(pattern=NAME)]
    key: tuple[str, ...]
    key_groups: Annotated[int, Field(ge=1, le=32768)] = 64
    after: tuple[str, ...] | None = Field(None, description="Operators that pass it rows; by default the one before it")


class Profile(Strict):
    """The scheduled batch job that measures key groups, flows and streams on the source table."""

    source: str = Field(description="Folder of the Delta source table; ${MILLRACE_HOME} is replaced")
    time_column: str
    period_s: Annotated[int, Field(ge=1)] = 60
    operators: tuple[KeyedOperator, ...] = ()
    stream: tuple[str, ...] = Field((), description="Columns whose values together name an input stream")
    schedule: str = Field("*/10 * * * *", description="Cron expression of profile_<pipeline>")

    @model_validator(mode="after")
    def _operators_follow_each_other(self) -> Self:
        above: list[str] = []
        for operator in self.operators:
            if operator.name in above:
                raise ValueError(f"operators: {operator.name} is there twice; give each operator a name of its own")
            for first in operator.after or ():
                if first not in above:
                    before = ", ".join(above) or "none"
                    raise ValueError(f"operators.{operator.name}.after: {first} is not among those above it: {before}")
            above.append(operator.name)
        return self

    @property
    def flowing(self) -> tuple[KeyedOperator, ...]:
        """The operators, each with those that pass it rows."""
        names = [(), *((operator.name,) for operator in self.operators)]
        return tuple(
            operator.model_copy(update={"after": before if operator.after is None else operator.after})
            for operator, before in zip(self.operators, names, strict=False)
        )

    @field_validator("schedule")
    @classmethod
    def _is_cron(cls, schedule: str) -> str:
        from croniter import croniter  # Airflow reads the expression with the same library, at import of the DAG

        if not croniter.is_valid(schedule):
            raise PydanticCustomError("cron", "a cron expression of five fields such as */10 * * * *, or @hourly")
        return schedule


class Placement(Strict):
    """On how many nodes the key groups that ``profile`` measures would sit, and what a plan may cost: advice so far."""

    workers: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (1.0, 1.0, 1.0, 1.0), min_length=1, description="Capacity of each node, 1 for an ordinary one"
    )
    periods: Annotated[int, Field(ge=1)] = Field(24, description="Periods of the profile that are averaged")
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the optimizer albic")

    @model_validator(mode="after")
    def _workers_are_named_once(self) -> Self:
        if "workers" in self.options:
            raise ValueError("options: workers does not belong here; it is a key of placement itself")
        return self
