"""The section ``join`` of a pipeline spec: streams that are joined over a window, and the workers that share it."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from millrace.model.join import JoinDefinition, JoinSettings, JoinStream, JoinTask
from millrace.model.spec_base import NAME, Adapted, Strict

Column = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Name = Annotated[str, Field(pattern=NAME)]
Text = Annotated[str, Field(min_length=1)]

BLOCKS = 40
"""Blocks that fill a worker, where a spec does not say how large they are."""


def _columns(value: Any) -> Any:
    """Take a list of names as columns that are shown as they are."""
    names = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    return {name: name for name in value} if names else value


def _pairs(value: Any) -> Any:
    """Take a mapping as its pairs, and a plain name as the column of both sides."""
    if isinstance(value, dict):
        return list(value.items())
    if not isinstance(value, list | tuple):
        return value
    return [(each, each) if isinstance(each, str) else each for each in value]


def _span(value: Any) -> Any:
    """Take a number as the distance to both sides."""
    return (-value, value) if isinstance(value, int | float) else value


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

    left: str = Field(description="Name of a stream")
    right: str = Field(description="Name of another, or the same")
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

    streams: dict[Name, StreamOfJoin] = Field(min_length=1, description="The input streams, by name")
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
                        columns = ", ".join(self.streams[stream].columns)
                        raise ValueError(f"tasks.{name}.on: {stream} has no column {column}; columns: {columns}")
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
        """The join as its job gets it."""
        streams = tuple(JoinStream(name, s.source, s.time, s.columns, s.late_s) for name, s in self.streams.items())
        tasks = tuple(
            JoinTask(name, task.left, task.right, task.on, *task.within_s, task.left_where, task.right_where)
            for name, task in self.tasks.items()
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

    def kept(self, settings: JoinSettings) -> JoinSettings:
        """Return the settings that adaptation has come to, within these bounds."""
        workers = min(max(settings.workers, self.workers.min), self.workers.max)
        return JoinSettings(workers, min(settings.block, self.capacity // 2), settings.shed)
