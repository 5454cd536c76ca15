"""The section ``join`` of a pipeline spec: streams joined over a window, and the workers that share it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from millrace.model.errors import MillraceError
from millrace.model.join import MP2PF, JoinDefinition, JoinSettings, JoinStream, JoinTask
from millrace.model.spec_base import NAME, Adapted, Strict

Column = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Name = Annotated[str, Field(pattern=NAME)]
Text = Annotated[str, Field(min_length=1)]

BLOCKS = 40
"""Blocks that fill a worker if the spec sets no block size."""
TAKEN = ("time", "_time", "_hash")
"""Columns that the job adds to a stream's rows or results."""


def _folder(text: str) -> str:
    """Return a folder without ``file:``, which is the only scheme that the job can write to."""
    path = re.sub("^file:(//)?(?=/[^/])", "", text)
    if re.match("[A-Za-z][A-Za-z0-9+.-]*:/", path):
        raise ValueError("a folder that the driver and all executors can write to, and no URI of an object store")
    return path


def _columns(value: Any) -> Any:
    """Turn a list of names into columns of the same names."""
    names = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    return {name: name for name in value} if names else value


def _distinct(columns: dict[str, str]) -> dict[str, str]:
    """Refuse names that are the same to Spark and Delta, which ignore case."""
    seen = {*TAKEN}
    for name in columns:
        if name.lower() in seen:
            taken = ", ".join(TAKEN)
            raise ValueError(f"names that differ in more than case, and none of {taken}, got {name}")
        seen.add(name.lower())
    return columns


def _pairs(value: Any) -> Any:
    """Turn a mapping into pairs, and a plain name into a column of both sides."""
    if isinstance(value, dict):
        return list(value.items())
    if not isinstance(value, list | tuple):
        return value
    return [(each, each) if isinstance(each, str) else each for each in value]


def _span(value: Any) -> Any:
    """Turn a number into a distance in both directions."""
    return (-value, value) if isinstance(value, int | float) else value


class StreamOfJoin(Strict):
    """An input stream of a join."""

    source: Text = Field(
        description="Folder of the stream's Delta table, absolute or relative to the spec's folder, or its URI; "
        "${MILLRACE_HOME} is replaced"
    )
    time: Text = Field(description="Event-time column")
    columns: Annotated[
        dict[Column, Text],
        BeforeValidator(_columns, json_schema_input_type=dict[Column, Text] | list[Column]),
        Field(min_length=1, description="SQL expression of each column that tasks or results use, or a list of names"),
        AfterValidator(_distinct),
    ]
    late_s: Annotated[float, Field(ge=0)] = Field(
        0.0,
        description="Seconds of event time by which a tuple may be late; later tuples are dropped",
    )


class TaskOfJoin(Strict):
    """A join predicate over two of the streams, or over one stream twice."""

    left: str = Field(description="Name of the left stream")
    right: str = Field(description="Name of the right stream; may be the same")
    on: Annotated[
        tuple[tuple[str, str], ...],
        BeforeValidator(_pairs, json_schema_input_type=dict[str, str] | list[str | tuple[str, str]]),
        Field(description="Columns that must be equal: [left, right] pairs, left: right, or names on both sides"),
    ] = ()
    within_s: Annotated[
        tuple[float, float],
        BeforeValidator(_span, json_schema_input_type=float | tuple[float, float]),
        Field(description="Event time of right minus left, seconds: [least, greatest], or n for [-n, n]"),
    ]
    left_where: str = Field("", description="SQL condition on columns of the left stream")
    right_where: str = Field("", description="SQL condition on columns of the right stream")

    @model_validator(mode="after")
    def _is_a_span(self) -> Self:
        after, before = self.within_s
        if after > before:
            raise ValueError(f"within_s: the least distance comes first, got [{after:g}, {before:g}]")
        return self


class Workers(Adapted):
    """Bounds of a join's workers, and their number at the first start."""


class Join(Strict):
    """A windowed join of streams; its workers, block size and shed ratio change while it runs."""

    streams: dict[Name, StreamOfJoin] = Field(min_length=1, description="Input streams, by name")
    tasks: dict[Name, TaskOfJoin] = Field(
        min_length=1, description="Join predicates, by name; each has a results table"
    )
    results: Annotated[Text, AfterValidator(_folder)] = Field(
        description="Folder of the tasks' results tables, absolute or relative to the spec's folder; "
        "${MILLRACE_HOME} is replaced"
    )
    checkpoint: Annotated[Text, AfterValidator(_folder)] = Field(
        description="Folder of the query's checkpoint, absolute or relative to the spec's folder; driver and executors "
        "write to it; ${MILLRACE_HOME} is replaced"
    )
    capacity: Annotated[int, Field(ge=2)] = Field(description="Most tuples of the window that a worker should keep")
    workers: Workers = Workers()
    block: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Tuples per block at the first start; by default capacity / 40"
    )
    expected_rows_per_s: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Rows per second of event time of all streams together, if known in advance"
    )
    forwarding: Literal["broadcast", "mp2pf"] = Field(
        "broadcast",
        description="New tuples go to all workers at once (broadcast), or hop along a chain of them (mp2pf)",
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
    def _tuples_meet(self) -> Self:
        if self.forwarding == MP2PF:
            try:
                self.definition.sides()
            except MillraceError as error:
                raise ValueError(str(error)) from None
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
        return JoinDefinition(streams, tasks, self.results, self.checkpoint, self.capacity, self.forwarding)

    @property
    def window_s(self) -> float:
        """Longest time for which a tuple can find partners, seconds of event time."""
        return max(self.definition.window_s(name) for name in self.streams)

    @property
    def first(self) -> JoinSettings:
        """Settings of the first start."""
        return JoinSettings(self.workers.start, self.block or max(1, self.capacity // BLOCKS))

    def kept(self, settings: JoinSettings) -> JoinSettings:
        """Return adapted settings, limited to these bounds."""
        workers = min(max(settings.workers, self.workers.min), self.workers.max)
        return JoinSettings(workers, min(settings.block, self.capacity // 2), settings.shed)
