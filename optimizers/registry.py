"""From the names in a pipeline's spec to its optimizers.

How parallel each operator is to be: ``flow`` is the default; ``conttune`` (the paper's, literal and strong), ``ds2``,
``dhalion``, ``random`` and ``dragster`` are its rivals, all usable live. Where key groups are to sit: ``albic``. Where
input streams are to enter: ``drfm``. How a stream join is to be set: ``esj``. How much memory executors get:
``executor_memory``.

A tuner of your own is an installed package with an entry point of the group ``millrace.optimizers``, named as specs
name it (``docs/optimizers.md``). Optimizers are imported when they are made: Airflow parses DAG files that import this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from millrace.model.errors import MillraceError
from millrace.model.protocols import Optimizer
from millrace.model.spec import MEMORY_OPTIMIZER, PipelineSpec

GROUP = "millrace.optimizers"
"""Entry points of this group are tuners."""

Section = Mapping[str, Any]
"""What a spec says to an optimizer: the options of a tuner or of ``placement``, or all of ``admission`` or ``join``."""


class Role(StrEnum):
    """What an optimizer decides."""

    TUNER = "tuner"
    PLACEMENT = "placement"
    ADMISSION = "admission"
    JOIN = "join"
    MEMORY = "memory"


@dataclass(frozen=True)
class Registration:
    """An optimizer that specs can ask for.

    Attributes:
        name: Its name in specs, proposals and the lake.
        role: What it decides.
        path: Its class as ``module:Class``.
    """

    name: str
    role: Role
    path: str

    def make(self, section: Section) -> Optimizer:
        """Return one with these options; what is absent has its default.

        Raises:
            MillraceError: If it cannot be imported, an option or a value is unknown, or values contradict each other.
        """
        try:
            kind: Any = EntryPoint(self.name, self.path, GROUP).load()
        except Exception as error:
            allowed = "an installed optimizer that can be imported"
            raise MillraceError("tuner.name", self.name, allowed, f"Fix {self.path}: {error!r}.") from error
        optimizer: Optimizer = kind(kind.Options.read(section))
        return optimizer


BUILT_IN = (
    Registration("flow", Role.TUNER, "millrace.optimizers.conttune.flow:Flow"),
    Registration("conttune", Role.TUNER, "millrace.optimizers.conttune.paper.tuner:ContTune"),
    Registration("ds2", Role.TUNER, "millrace.optimizers.conttune.rivals.ds2:Ds2"),
    Registration("dhalion", Role.TUNER, "millrace.optimizers.conttune.rivals.dhalion:Dhalion"),
    Registration("random", Role.TUNER, "millrace.optimizers.conttune.rivals.random_search:RandomSearch"),
    Registration("dragster", Role.TUNER, "millrace.optimizers.conttune.rivals.dragster:Dragster"),
    Registration("albic", Role.PLACEMENT, "millrace.optimizers.albic.optimizer:Albic"),
    Registration("drfm", Role.ADMISSION, "millrace.optimizers.drfm.optimizer:Drfm"),
    Registration("esj", Role.JOIN, "millrace.optimizers.esj.optimizer:Esj"),
    Registration(MEMORY_OPTIMIZER, Role.MEMORY, "millrace.optimizers.executor_memory:ExecutorMemory"),
)


def names() -> tuple[str, ...]:
    """Return the names of all tuners in alphabetical order."""
    return tuple(sorted({registration.name for registration in _all() if registration.role is Role.TUNER}))


def create(name: str, section: Section, role: Role = Role.TUNER) -> Optimizer:
    """Return an optimizer by its name; a built-in name cannot be taken by another.

    Args:
        name: A name that is registered for the role.
        section: Its options by name, or its whole section; what is absent has its default.
        role: What it is to decide.

    Raises:
        MillraceError: If the name, an option or a value is unknown, or values contradict each other.
    """
    registration = next((r for r in _all() if (r.name, r.role) == (name, role)), None)
    if registration is None:
        known = sorted({r.name for r in _all() if r.role is role})
        key = "tuner.name" if role is Role.TUNER else role.value
        raise MillraceError(key, name, ", ".join(known), "Name an optimizer of this list in the spec.")
    return registration.make(section)


def _all() -> Iterator[Registration]:
    """Yield the built-in optimizers, then the tuners of installed packages."""
    yield from BUILT_IN
    for entry in entry_points(group=GROUP):
        yield Registration(entry.name, Role.TUNER, entry.value)


def all_of(spec: PipelineSpec) -> dict[str, Optimizer]:
    """Return the optimizers that a spec asks for, by the names that decisions know them by.

    Raises:
        MillraceError: If a name, an option or a value is unknown, or two contradict each other.
    """
    tuner, options = spec.tuner_options
    sections = {
        (tuner, Role.TUNER): options,
        ("albic", Role.PLACEMENT): spec.placement_options,
        ("drfm", Role.ADMISSION): spec.admission_options,
        ("esj", Role.JOIN): spec.join_options,
        (MEMORY_OPTIMIZER, Role.MEMORY): None if spec.executor_size is None else {},
    }
    return {name: create(name, section, role) for (name, role), section in sections.items() if section is not None}


def problems(specs: Iterable[PipelineSpec]) -> list[MillraceError]:
    """Return what is wrong with what specs say to their optimizers, the first of each."""
    errors = []
    for spec in specs:
        try:
            all_of(spec)
        except MillraceError as error:
            errors.append(MillraceError(f"{spec.name}: {error.key}", error.value, error.allowed, error.remedy))
    return errors
