"""From the names in a pipeline's spec to its optimizers.

How parallel each operator is to be: ``flow`` is the default; ``conttune`` (the paper's, literal and strong), ``ds2``,
``dhalion``, ``random`` and ``dragster`` are its rivals, all usable live. Where key groups are to sit: ``albic``. Where
input streams are to enter: ``drfm``. How a stream join is to be set: ``esj``.

A tuner of your own is an installed package with an entry point of the group ``millrace.optimizers``, named as specs
name it (``docs/optimizers.md``). Optimizers are imported when they are made: Airflow parses DAG files that import this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

from include.model.errors import MillraceError
from include.model.protocols import Optimizer

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


@dataclass(frozen=True)
class Registration:
    """An optimizer that specs can ask for.

    Attributes:
        name: Its name in specs, proposals and the lake.
        role: What it decides.
        make: Makes one from its section; raises MillraceError if an option or a value is unknown.
    """

    name: str
    role: Role
    make: Callable[[Section], Optimizer]


def _plugin(path: str) -> Callable[[Section], Optimizer]:
    """Return what imports ``module:Class`` when it makes one."""

    def make(section: Section) -> Optimizer:
        module, name = path.split(":")
        return _make(getattr(import_module(module), name), section)

    return make


def _make(kind: Any, section: Section) -> Optimizer:
    optimizer: Optimizer = kind(kind.Options.read(section))
    return optimizer


def placement(section: Section) -> Optimizer:
    """Return ``albic``, made with the section's options."""
    from optimizers.albic.optimizer import PlacementOptimizer
    from optimizers.albic.options import parse

    return PlacementOptimizer(parse(section))


def admission(section: Section) -> Optimizer:
    """Return ``drfm``, made with the section ``admission``."""
    from optimizers.drfm.optimizer import AdmissionOptimizer
    from optimizers.drfm.options import parse

    return AdmissionOptimizer(parse(section))


BUILT_IN = (
    Registration("flow", Role.TUNER, _plugin("optimizers.conttune.flow:Flow")),
    Registration("conttune", Role.TUNER, _plugin("optimizers.conttune.paper.tuner:ContTune")),
    Registration("ds2", Role.TUNER, _plugin("optimizers.conttune.rivals.ds2:Ds2")),
    Registration("dhalion", Role.TUNER, _plugin("optimizers.conttune.rivals.dhalion:Dhalion")),
    Registration("random", Role.TUNER, _plugin("optimizers.conttune.rivals.random_search:RandomSearch")),
    Registration("dragster", Role.TUNER, _plugin("optimizers.conttune.rivals.dragster:Dragster")),
    Registration("albic", Role.PLACEMENT, placement),
    Registration("drfm", Role.ADMISSION, admission),
    Registration("esj", Role.JOIN, _plugin("optimizers.esj.optimizer:Esj")),
)


def names() -> tuple[str, ...]:
    """Return the names of all tuners in alphabetical order."""
    return tuple(sorted({r.name for r in (*BUILT_IN, *_installed()) if r.role is Role.TUNER}))


def create(name: str, section: Section, role: Role = Role.TUNER) -> Optimizer:
    """Return an optimizer by its name; a built-in name cannot be taken by another.

    Args:
        name: A name that is registered for the role.
        section: Its options by name, or its whole section; what is absent has its default.
        role: What it is to decide.

    Raises:
        MillraceError: If the name, an option or a value is unknown, or values contradict each other.
    """
    of_role = (r for rs in (BUILT_IN, _installed()) for r in rs if (r.name, r.role) == (name, role))
    registration = next(of_role, None)
    if registration is None:
        raise MillraceError("tuner.name", name, ", ".join(names()), "Name an optimizer of this list in the spec.")
    return registration.make(section)


def _installed() -> Iterator[Registration]:
    """Yield the tuners of installed packages."""
    for entry in entry_points(group=GROUP):
        yield Registration(entry.name, Role.TUNER, partial(_load, entry))


def _load(entry: EntryPoint, section: Section) -> Optimizer:
    try:
        kind = entry.load()
    except Exception as error:
        allowed = "an installed optimizer that can be imported"
        raise MillraceError("tuner.name", entry.name, allowed, f"Mend {entry.value}: {error!r}.") from error
    return _make(kind, section)


class OptimizerSections(Protocol):
    """What a pipeline's spec says of its optimizers."""

    @property
    def name(self) -> str:
        """Name of the pipeline."""
        ...

    @property
    def tuner_options(self) -> tuple[str, Section]:
        """Name of the tuner, and its options."""
        ...

    @property
    def placement_options(self) -> Section | None:
        """Options of ``albic``; None without it."""
        ...

    @property
    def admission_options(self) -> Section | None:
        """Section of ``drfm``; None without it."""
        ...

    @property
    def join_options(self) -> Section | None:
        """Section of ``esj``; None without it."""
        ...


def all_of(spec: OptimizerSections) -> dict[str, Optimizer]:
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
    }
    return {name: create(name, section, role) for (name, role), section in sections.items() if section is not None}


def problems(specs: Iterable[OptimizerSections]) -> list[MillraceError]:
    """Return what is wrong with what specs say to their optimizers, the first of each."""
    errors = []
    for spec in specs:
        try:
            all_of(spec)
        except MillraceError as error:
            errors.append(MillraceError(f"{spec.name}: {error.key}", error.value, error.allowed, error.remedy))
    return errors
