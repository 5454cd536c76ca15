"""The section ``admission`` of a pipeline spec: at which ingest nodes input streams enter."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from millrace.model.spec_base import Strict

Periods = Annotated[float, Field(gt=0)]
Rate = Annotated[float, Field(ge=0)]


class StreamMetadata(Strict):
    """What is known of an input stream beforehand; rates in rows a second, durations in periods of the profile."""

    minimum: Rate | None = Field(None, description="Lowest rate")
    maximum: Rate | None = Field(None, description="Highest rate")
    average: Rate | None = Field(None, description="Mean rate")
    high_duration: Periods | None = Field(None, description="From the begin of a rise to that of the fall")
    low_duration: Periods | None = Field(None, description="From the begin of a fall to that of the rise")
    period: Periods | None = Field(None, description="The two together")
    phase: Annotated[float, Field(ge=0)] | None = Field(
        None, description="Period in which a rise begins, from 1970-01-01 UTC: with periods of an hour 6 is 06:00"
    )
    transition: Literal["jump", "trend"] | None = Field(None, description="How it goes from one level to the other")
    slope_duration: Periods | None = Field(None, description="Periods that a trend takes from one level to the other")
    slope: Periods | None = Field(None, description="The same as change of the rate a period")
    lifetime: Periods | None = Field(None, description="Periods from joining to leaving")


class AdmissionSizing(Strict):
    """What a row costs the workers behind the ingest nodes, measured; all in time of the rows themselves."""

    query_s: Annotated[float, Field(gt=0)] = Field(description="Seconds of a query worker a row")
    merge_s: Annotated[float, Field(ge=0)] = Field(0.0, description="Seconds of a merge worker a partial result")
    partials: Annotated[float, Field(ge=0)] = Field(0.0, description="Partial results a second of a busy query worker")
    through_s: tuple[Rate, Rate, Rate] = Field(
        (0.0, 0.0, 0.0), description="Seconds that a row takes through an idle ingest, query and merge worker"
    )
    headroom: Annotated[float, Field(ge=0, lt=1)] = Field(0.2, description="Share of a worker that stays free")
    latency_s: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Bound of the results' latency; objective.max_lag_s by default"
    )


class Admission(Strict):
    """At which ingest nodes input streams enter, and how many nodes: advice, unless ``ingest`` names their tables."""

    capacity: Annotated[float, Field(gt=0)] = Field(description="Rows a second of event time that an ingest node takes")
    ingest: tuple[str, ...] = Field(
        (), description="Ingest tables of a feed that redirects its streams by decisions; without them plans are advice"
    )
    report_s: Annotated[int, Field(ge=1)] = Field(10, description="Length of the periods that such a feed reports")
    periods: Annotated[int, Field(ge=1)] = Field(336, description="Most periods that an evaluation takes in, newest")
    unfinished: Annotated[int, Field(ge=0)] = Field(
        1, description="Newest periods that may still get rows: they wait until newer ones have come"
    )
    streams: dict[str, StreamMetadata] = Field(default_factory=dict, description="What is known of streams, by id")
    sizing: AdmissionSizing | None = None
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the optimizer drfm")
