"""Which streams a node runs: those of the newest Deployment, or a fixed list if it runs without Millrace."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from millrace.lake.deployments import DeploymentFollower
from millrace.lake.store import Lake
from millrace.model.deployment import node_name
from millrace.model.errors import MillraceError

LOG = logging.getLogger(__name__)
NODE = re.compile(r"node(0|[1-9]\d*)")


@dataclass(frozen=True)
class Assignment:
    """The streams of one node.

    Attributes:
        version: Version of the Deployment that assigns them; 0 without one.
        streams: Their names.
        elsewhere: The app of the node that runs each other stream, by stream.
    """

    version: int = 0
    streams: frozenset[str] = frozenset()
    elsewhere: Mapping[str, str] = field(default_factory=dict)


def number_of(app: str) -> int:
    """Return the number of the node that an app is.

    Raises:
        MillraceError: If the app is no node.
    """
    found = NODE.fullmatch(app)
    if found is None:
        raise MillraceError("app", app, f"{node_name(0)}, {node_name(1)}, ...", "Name the nodes of a fleet like this.")
    return int(found[1])


class DeployedStreams:
    """Follow a pipeline's Deployments; keep the last streams if there is no Deployment or the lake cannot be read.

    Args:
        lake: Lake with the Deployments.
        pipeline: Name of the pipeline.
        app: Name of the node's app.

    Raises:
        MillraceError: If the app is no node.
    """

    def __init__(self, lake: Lake, pipeline: str, app: str) -> None:
        self._followed, self._number = DeploymentFollower(lake, pipeline), number_of(app)
        self._last, self._error = Assignment(), ""

    def __call__(self) -> Assignment:
        """Return the streams."""
        try:
            newest = self._followed.read()
        except MillraceError as error:
            if str(error) != self._error:
                LOG.warning("The node keeps its streams: %s", error)
            self._error = str(error)
            return self._last
        self._error = ""
        if newest is not None and newest.version != self._last.version:
            mine = frozenset(stream for stream, node in newest.ingest.items() if node == self._number)
            others = {stream: node_name(node) for stream, node in newest.ingest.items() if node != self._number}
            self._last = Assignment(newest.version, mine, others)
        return self._last


def fixed(streams: Collection[str]) -> Callable[[], Assignment]:
    """Return an assignment that never changes."""
    assignment = Assignment(0, frozenset(streams))
    return lambda: assignment


def parse(text: str) -> tuple[str, ...]:
    """Return the streams of the option ``--streams``: names with commas between them, or a JSON list of any names."""
    if not text.startswith("["):
        return tuple(name for name in text.split(",") if name)
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise MillraceError("--streams", text, "names with commas between them, or a JSON list", "Fix the list.")
    return tuple(names)
