"""The section ``join`` of a pipeline spec: streams that are joined over a window, and the workers that share it."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from include.model.join import JoinDefinition, JoinSettings, JoinStream, JoinTask
from include.model.spec_base import NAME, Adapted, Strict

Column = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Name = Annotated[str, Field(pattern=NAME)]
Text = Annotated[str, Field(min_length=1)]

BLOCKS = 40
"""Blocks that fill a worker, where a spec does not say how large they are."""


def _columns(told: Any) -> Any:
    """Take a list of names as columns that are shown as they are."""
    names = isinstance(told, list | tuple) and all(isinstance(each, str) for each in told)
    return {name: name for name in told} if names else told


def _pairs(told: Any) -> Any:
    """Take a mapping as its pairs, and a plain name as the column of both sides."""
    if isinstance(told, dict):
        return list(told.items())
    if not isinstance(told, list | tuple):
        return told
    return [(each, each) if isinstance(each, str) else each for each in told]


def _span(told: Any) -> Any:
    """Take a number as the distance to both sides."""
    return (-told, told) if isinstance(told, int | float) else told


class StreamOfJoin(Strict):
    """An input stream of a join."""

    source: Text = Field(description="Folder of its Delta table; ${MILLRACE_HOME} is replaced")
    time: Text = Field(description="Column of its event time")
    columns: Annotated[
        dict[Column, Text],
        BeforeValidator(_columns, json_schema_input_type=dict[Column, Text] | list[Column]),
        Field(min_length=1, description="SQL expression of each column that tasks use or results show, or plain names"),
    ]
    late_s: Annotated[float, Field(ge=0)] = Field(
        0.0,
        description="Seconds of event time that a tuple may come later than newer ones; later still it is dropped",
    )


class TaskOfJoin(Strict):
    """A join predicate over two of the streams, or over one twice."""

    left: str
    right: str
    on: Annotated[
        tuple[tuple[str, str], ...],
        BeforeValidator(_pairs, json_schema_input_type=dict[str, str] | list[str | tuple[str, str]]),
        Field(description="Columns that are equal: [left, right] pairs, left: right, or names that both sides have"),
    ] = ()
    within_s: Annotated[
        tuple[float, float],
        BeforeValidator(_span, json_schema_input_type=float | tuple[float, float]),
        Field(description="Time of the right less that of the left, seconds: [least, greatest], or n for [-n, n]"),
    ]
    left_where: str = Field("", description="SQL condition on the left's columns")
    right_where: str = Field("", description="SQL condition on the right's columns")

    @model_validator(mode="before")
    @classmethod
    def _on_is_a_word(cls, told: Any) -> Any:
        """Take the key that YAML 1.1 reads as true for what stands there."""
        return {"on" if key is True else key: value for key, value in told.items()} if isinstance(told, dict) else told

    @model_validator(mode="after")
    def _is_a_span(self) -> Self:
        after, before = self.within_s
        if after > before:
            raise ValueError(f"within_s: the least distance comes first, got [{after:g}, {before:g}]")
        return self


class Workers(Adapted):
    """Bounds of a join's workers, and the workers of its first start."""


class Join(Strict):
    """A windowed join of streams, whose workers, block size and shed ratio change while it runs."""

    streams: dict[Name, StreamOfJoin] = Field(min_length=1)
    tasks: dict[Name, TaskOfJoin] = Field(min_length=1, description="Join predicates; each has a results table")
    results: Text = Field(description="Folder of the tasks' results tables; ${MILLRACE_HOME} is replaced")
    checkpoint: Text = Field(description="Folder of the query's checkpoint; ${MILLRACE_HOME} is replaced")
    capacity: Annotated[int, Field(ge=2)] = Field(description="Tuples of the window that a worker is to keep at most")
    workers: Workers = Workers()
    block: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Tuples of a block at the first start; a 40th of capacity by default"
    )
    expected_rows_per_s: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Rows a second of event time of all streams together, as far as it is known beforehand"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the optimizer esj")

    @model_validator(mode="after")
    def _tasks_are_of_the_streams(self) -> Self:
        for name, task in self.tasks.items():
            for side, stream in (("left", task.left), ("right", task.right)):
                if stream not in self.streams:
                    raise ValueError(f"tasks.{name}.{side}: no stream {stream}; streams: {', '.join(self.streams)}")
            for pair in task.on:
                for stream, column in zip((task.left, task.right), pair, strict=True):
                    if column not in self.streams[stream].columns:
                        known = ", ".join(self.streams[stream].columns)
                        raise ValueError(f"tasks.{name}.on: {stream} has no column {column}; columns: {known}")
        used = {stream for task in self.tasks.values() for stream in (task.left, task.right)}
        if unused := [stream for stream in self.streams if stream not in used]:
            raise ValueError(f"streams: no task joins {', '.join(unused)}; leave such streams out")
        return self

    @model_validator(mode="after")
    def _blocks_fit(self) -> Self:
        if self.block is not None and 2 * self.block > self.capacity:
            raise ValueError(f"block: at most half of capacity, {self.capacity // 2}, got {self.block}")
        return self

    @property
    def definition(self) -> JoinDefinition:
        """What the job is told."""
        streams = tuple(
            JoinStream(name, told.source, told.time, told.columns, told.late_s) for name, told in self.streams.items()
        )
        tasks = tuple(
            JoinTask(name, told.left, told.right, told.on, *told.within_s, told.left_where, told.right_where)
            for name, told in self.tasks.items()
        )
        return JoinDefinition(streams, tasks, self.results, self.checkpoint, self.capacity)

    @property
    def window_s(self) -> float:
        """How long a tuple of the streams can find partners at most, seconds of event time."""
        return max(self.definition.window_s(name) for name in self.streams)

    @property
    def first(self) -> JoinSettings:
        """Settings of the first start."""
        return JoinSettings(self.workers.start, self.block or max(1, self.capacity // BLOCKS))

    def kept(self, found: JoinSettings) -> JoinSettings:
        """Return settings that adaptation has found, within these bounds."""
        workers = min(max(found.workers, self.workers.min), self.workers.max)
        return JoinSettings(workers, min(found.block, self.capacity // 2), found.shed)
