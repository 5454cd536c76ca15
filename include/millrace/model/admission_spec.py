"""The section ``admission`` of a pipeline spec: which ingest node each input stream enters."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from millrace.model.spec_base import Strict

Periods = Annotated[float, Field(gt=0)]
Rate = Annotated[float, Field(ge=0)]


class StreamMetadata(Strict):
    """Known properties of an input stream; rates in rows per second, durations in periods of the profile."""

    minimum: Rate | None = Field(None, description="Lowest rate")
    maximum: Rate | None = Field(None, description="Highest rate")
    average: Rate | None = Field(None, description="Mean rate")
    high_duration: Periods | None = Field(None, description="From the start of a rise to the start of the fall")
    low_duration: Periods | None = Field(None, description="From the start of a fall to the start of the rise")
    period: Periods | None = Field(None, description="Sum of high_duration and low_duration")
    phase: Annotated[float, Field(ge=0)] | None = Field(
        None, description="Period in which a rise starts, counted from 1970-01-01 UTC: with hourly periods, 6 is 06:00"
    )
    transition: Literal["jump", "trend"] | None = Field(None, description="How the rate changes between the two levels")
    slope_duration: Periods | None = Field(None, description="Periods that a trend takes between the two levels")
    slope: Periods | None = Field(None, description="The same as a change of rate per period")
    lifetime: Periods | None = Field(None, description="Periods from joining to leaving")


class AdmissionSizing(Strict):
    """Measured cost of a row for the workers behind the ingest nodes; all times are event time."""

    query_s: Annotated[float, Field(gt=0)] = Field(description="Query-worker seconds per row")
    merge_s: Annotated[float, Field(ge=0)] = Field(0.0, description="Merge-worker seconds per partial result")
    partials: Annotated[float, Field(ge=0)] = Field(
        0.0, description="Partial results per second, per busy query worker"
    )
    through_s: tuple[Rate, Rate, Rate] = Field(
        (0.0, 0.0, 0.0), description="Seconds that a row takes through an idle ingest, query and merge worker"
    )
    headroom: Annotated[float, Field(ge=0, lt=1)] = Field(0.2, description="Share of a worker that stays free")
    latency_s: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Maximum latency of the results, seconds; by default objective.max_lag_s"
    )
    query_app: str | None = Field(
        None, description="App of the pipeline whose slots are the query workers, with owners: {slots: drfm}"
    )
    merge_app: str | None = Field(None, description="The same for the merge workers")


class Admission(Strict):
    """Which ingest node each input stream enters, and how many nodes; advice unless ``ingest`` names their tables."""

    capacity: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="Rows per second of event time that an ingest node can take; without it, a fleet learns what its "
        "streams cost in slots",
    )
    target_utilisation: Annotated[float, Field(gt=0, le=1)] = Field(
        0.75, description="Share of its slots that the streams of a fleet's node may fill, without capacity"
    )
    ingest: tuple[str, ...] = Field(
        (), description="Ingest tables of a feed that redirects its streams as decided; without them plans are advice"
    )
    report_s: Annotated[int, Field(ge=1)] = Field(
        10, description="Length of the periods that such a feed reports, seconds"
    )
    periods: Annotated[int, Field(ge=1)] = Field(
        336, description="Most periods that an evaluation takes in, the newest"
    )
    unfinished: Annotated[int, Field(ge=0)] = Field(
        1, description="Number of newest periods that may still get rows; they wait until newer periods have come"
    )
    streams: dict[str, StreamMetadata] = Field(
        default_factory=dict, description="Known properties of input streams, by id"
    )
    sizing: AdmissionSizing | None = None
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the optimizer drfm")
