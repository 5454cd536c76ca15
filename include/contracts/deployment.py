"""The desired state of a pipeline, and how a change to it is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from include.contracts.errors import MillraceError


@dataclass(frozen=True)
class AppDeployment:
    """One app of a Deployment.

    Attributes:
        script: The user's script, relative to the spec's working folder or absolute.
        args: The script's arguments.
        slots: Cores of the driver, >= 1.
        memory_mb: Driver memory, MiB.
        max_parallelism: Shuffle partitions, fixed for stateful operators at first start.
        submit: The spec's ``submit`` section (master, packages, jars, py_files, conf, env, cwd, python).
    """

    script: str
    args: tuple[str, ...]
    slots: int
    memory_mb: int
    max_parallelism: int
    submit: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Deployment:
    """The whole desired state of a pipeline, numbered.

    Immutable; versions only go up; a roll-back is a new version with old content.

    Attributes:
        pipeline: Name of the pipeline.
        version: >= 1.
        running: False if the pipeline is to be stopped.
        apps: Its apps by name.
        author: Who made it: ``decision`` or a person's word.
        decision_id: The Decision it comes from; None for a launch or a person's change.
        reason: One sentence.
    """

    pipeline: str
    version: int
    running: bool
    apps: Mapping[str, AppDeployment]
    author: str = "person"
    decision_id: str | None = None
    reason: str = ""

    def with_changes(self, changes: tuple[Change, ...]) -> Deployment:
        """Return the content that results from typed changes (same version; the store numbers it).

        Raises:
            MillraceError: If a change names an app or a field that does not exist.
        """
        apps = dict(self.apps)
        for change in changes:
            if change.app not in apps:
                raise MillraceError("change.app", change.app, ", ".join(sorted(apps)), "Name an app of the pipeline.")
            if change.field not in CHANGEABLE:
                raise MillraceError("change.field", change.field, ", ".join(CHANGEABLE), "Name a changeable field.")
            apps[change.app] = replace(apps[change.app], **{change.field: change.value})  # type: ignore[arg-type]
        return replace(self, apps=MappingProxyType(apps))


@dataclass(frozen=True)
class Change:
    """One field of a Deployment from one value to another; ``field`` has exactly one owner in the spec."""

    app: str
    field: str
    before: int
    value: int


CHANGEABLE = ("slots", "memory_mb")
"""Fields of an AppDeployment that an optimizer may own."""
