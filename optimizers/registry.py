"""Find optimizers by the names in a pipeline's spec.

Parallelism of each operator: ``flow``. Placement of state partitions: ``albic``. Admission of input streams: ``drfm``.
Settings of a stream join: ``esj``. Maps of keys to workers: ``waterfill``. Executor memory: ``executor_memory``. Limits
of batches: ``batch_limits``.

Other tuners are in packages with an entry point in the group ``millrace.optimizers``, named as in specs
(``docs/optimizers.md``). The package ``millrace_rivals``, which is installed with Millrace, has the published tuners
``conttune``, ``ds2``, ``dhalion``, ``random`` and ``dragster``. All of them can run live.

Optimizers are imported only when they are constructed, because DAG files import this module and Airflow parses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from millrace.model.errors import MillraceError
from millrace.model.key_map import PARTITION_OPTIMIZER
from millrace.model.protocols import Optimizer
from millrace.model.spec import BATCH_OPTIMIZER, MEMORY_OPTIMIZER, PERSON, PipelineSpec

GROUP = "millrace.optimizers"
"""Group of the entry points that are tuners."""

Section = Mapping[str, Any]
"""What a spec passes to an optimizer: the options of a tuner, of ``placement`` or of ``partitioning``, or all of
``admission`` or ``join``.
"""


class Role(StrEnum):
    """What an optimizer decides."""

    TUNER = "tuner"
    PLACEMENT = "placement"
    ADMISSION = "admission"
    JOIN = "join"
    PARTITIONING = "partitioning"
    MEMORY = "memory"
    BATCHES = "batches"


@dataclass(frozen=True)
class Registration:
    """An optimizer that specs can name.

    Attributes:
        name: Its name in specs, proposals and the lake.
        role: Its role.
        path: Its class as ``module:Class``.
    """

    name: str
    role: Role
    path: str

    def make(self, section: Section) -> Optimizer:
        """Return an optimizer with these options; missing options get their defaults.

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
    Registration("albic", Role.PLACEMENT, "millrace.optimizers.albic.optimizer:Albic"),
    Registration("drfm", Role.ADMISSION, "millrace.optimizers.drfm.optimizer:Drfm"),
    Registration("esj", Role.JOIN, "millrace.optimizers.esj.optimizer:Esj"),
    Registration(PARTITION_OPTIMIZER, Role.PARTITIONING, "millrace.optimizers.partition_maps:PartitionMaps"),
    Registration(MEMORY_OPTIMIZER, Role.MEMORY, "millrace.optimizers.executor_memory:ExecutorMemory"),
    Registration(BATCH_OPTIMIZER, Role.BATCHES, "millrace.optimizers.batch_limits:BatchLimits"),
)


def names() -> tuple[str, ...]:
    """Return the names of all tuners in alphabetical order."""
    return tuple(sorted({registration.name for registration in registered() if registration.role is Role.TUNER}))


def create(name: str, section: Section, role: Role = Role.TUNER) -> Optimizer:
    """Return an optimizer by its name; packages cannot replace a built-in one.

    Args:
        name: A name that is registered for the role.
        section: Its options by name, or its whole section; missing options get their defaults.
        role: Its role.

    Raises:
        MillraceError: If the name, an option or a value is unknown, or values contradict each other.
    """
    registration = next((r for r in registered() if (r.name, r.role) == (name, role)), None)
    if registration is None:
        known = sorted({r.name for r in registered() if r.role is role})
        key = "tuner.name" if role is Role.TUNER else role.value
        raise MillraceError(key, name, ", ".join(known), "Name an optimizer of this list in the spec.")
    return registration.make(section)


def registered() -> Iterator[Registration]:
    """Yield the built-in optimizers, then the tuners of packages."""
    yield from BUILT_IN
    for entry in entry_points(group=GROUP):
        yield Registration(entry.name, Role.TUNER, entry.value)


def all_of(spec: PipelineSpec) -> dict[str, Optimizer]:
    """Return the optimizers that a spec asks for, by the names used in decisions.

    Raises:
        MillraceError: If a name, an option or a value is unknown, two contradict each other, or a field belongs to an
            optimizer that the spec does not ask for.
    """
    tuner, options = spec.tuner_options
    sections = {
        (tuner, Role.TUNER): options,
        ("albic", Role.PLACEMENT): spec.placement_options,
        ("drfm", Role.ADMISSION): spec.admission_options,
        ("esj", Role.JOIN): spec.join_options,
        (PARTITION_OPTIMIZER, Role.PARTITIONING): spec.partitioning_options,
        (MEMORY_OPTIMIZER, Role.MEMORY): spec.memory_options,
        (BATCH_OPTIMIZER, Role.BATCHES): {},
    }
    made = {name: create(name, section, role) for (name, role), section in sections.items() if section is not None}
    for field, owner in spec.owners.items():
        if owner not in {*made, PERSON}:  # otherwise every proposal for the field would remain advice
            remedy = f"Name an optimizer of this pipeline, or {PERSON} to change the field by hand only."
            raise MillraceError(f"owners.{field}", owner, ", ".join([*sorted(made), PERSON]), remedy)
    return made


def problems(specs: Iterable[PipelineSpec]) -> list[MillraceError]:
    """Return the first error of each spec whose optimizers cannot be created."""
    errors = []
    for spec in specs:
        try:
            all_of(spec)
        except MillraceError as error:
            errors.append(MillraceError(f"{spec.name}: {error.key}", error.value, error.allowed, error.remedy))
    return errors
