"""The section ``fleet`` of a pipeline spec: many streams, each a query of its own, on few drivers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from millrace.model.app_spec import merged
from millrace.model.codec import to_json
from millrace.model.deployment import node_name
from millrace.model.spec_base import Adapted, Strict

FLEET_NODE = Path(__file__).resolve().parents[1] / "jobs" / "fleet_node.py"
"""Script of every node."""
MOST_NODES = 64
FAIR = {"spark.scheduler.mode": "FAIR"}
"""Otherwise a large batch of one stream delays the others of its node."""


class FleetStreams(Strict):
    """Which streams there are: exactly one of these."""

    folders: str | None = Field(
        None,
        description="Pattern of folders, such as /landing/*, absolute or relative to the spec's folder; each with data "
        "is a stream",
    )
    topics: str | None = Field(None, description="Regular expression that matches names of Kafka topics; with brokers")
    list: tuple[str, ...] | None = Field(None, description="Names")
    file: str | None = Field(
        None, description="YAML file with a list of names, absolute or relative to the spec's folder"
    )
    brokers: str | None = Field(None, description="Addresses of the Kafka brokers that have the topics, host:port,...")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if len(self.source) != 1:
            raise ValueError("give exactly one of folders, topics, list, file")
        if (self.topics is None) != (self.brokers is None):
            raise ValueError("topics and brokers need each other")
        return self

    @property
    def source(self) -> Mapping[str, Any]:
        """The one that is given, by its name."""
        return self.model_dump(exclude_none=True, exclude={"brokers"})


class FleetNodes(Adapted):
    """Bounds of the number of drivers, and how many share the streams at the first start; a number fixes all three.

    Drivers up to ``min`` always run. Another one runs while it has streams.
    """

    max: Annotated[int, Field(ge=1, le=MOST_NODES)] = Field(4, description="Maximum")

    @model_validator(mode="before")
    @classmethod
    def _fixed(cls, raw: Any) -> Any:
        return {"min": raw, "max": raw, "start": raw} if isinstance(raw, int) else raw


class FleetNode(Strict):
    """Size of each driver."""

    slots: Annotated[int, Field(ge=1)] = Field(2, description="Tasks that it runs at once")
    memory_mb: Annotated[int, Field(ge=512)] = Field(2048, description="Driver memory, MiB")
    capacity: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Rows per second that it can take; without it, learned in slot-seconds"
    )


class Fleet(Strict):
    """Streams that share drivers: each node is a driver, and each stream a query that can move to another node."""

    script: str = Field(
        description="Python file with the function stream(spark, name, options), which returns a writer; absolute or "
        "relative to the spec's folder"
    )
    checkpoints: str = Field(
        description="Folder, absolute or relative to the spec's folder, or URI with one checkpoint per stream"
    )
    streams: FleetStreams
    nodes: FleetNodes = FleetNodes()
    node: FleetNode = FleetNode()
    options: dict[str, Any] = Field(default_factory=dict, description="Options for the function")

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of every node's script."""
        given = ("--script", self.script, "--checkpoints", self.checkpoints)
        return (*given, "--options", to_json(self.options)) if self.options else given

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the nodes' apps; a stream's node is its place in this order."""
        return tuple(map(node_name, range(self.nodes.max)))

    @property
    def standby(self) -> frozenset[str]:
        """Names of the nodes that run only while they have streams."""
        return frozenset(self.node_names[self.nodes.min :])


def with_nodes(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a raw spec whose ``fleet`` is written out as apps that admit its streams.

    Raises:
        ValueError: If ``admission`` or ``apps`` is no mapping, or the capacity of a node is given twice.
    """
    try:
        fleet = Fleet.model_validate(raw["fleet"])
    except ValidationError:
        return {"script": "", **raw}  # the errors are reported when the whole spec is read
    size = {**dict.fromkeys(("min", "max", "start"), fleet.node.slots), "schedule": ()}
    node = {"script": str(FLEET_NODE), "slots": size, "memory_mb": fleet.node.memory_mb, "submit": {"conf": FAIR}}
    for key in ("admission", "apps"):
        if raw.get(key) is not None and not isinstance(raw[key], Mapping):
            raise ValueError(f"{key}: a mapping of keys to values")
    admission = dict(raw.get("admission") or {})
    if fleet.node.capacity is not None:
        if admission.get("capacity") not in (None, fleet.node.capacity):
            raise ValueError("fleet.node.capacity: given in admission.capacity too; leave one of them out")
        admission["capacity"] = fleet.node.capacity
    apps = merged(dict.fromkeys(fleet.node_names, node), raw.get("apps") or {})
    return {"script": "", **raw, "apps": apps, "admission": {**admission, "ingest": fleet.node_names}}
