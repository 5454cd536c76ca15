"""From the name in a pipeline's spec to an optimizer.

How parallel each operator is to be: ``flow`` is the default; ``conttune`` (the paper's, literal and strong), ``ds2``,
``dhalion``, ``random`` and ``dragster`` are its rivals, all usable live. Where key groups are to sit: ``albic``. Where
input streams are to enter: ``drfm``. How a stream join is to be set: ``esj``.

To add one: a package of its own beside ``conttune`` that implements ``include.model.protocols.Optimizer``, a
maker here that imports it inside the function, and a subclass of the conformance suite
(``tests/optimizers/conformance.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from include.model import admission as admissions
from include.model import join as joins
from include.model.errors import MillraceError
from include.model.protocols import Optimizer

Options = Mapping[str, Any]


def create(name: str, options: Options) -> Optimizer:
    """Return the tuner of a registry name.

    Args:
        name: One of :func:`names`.
        options: Its options by name; what is absent has its default.

    Raises:
        MillraceError: If the name, an option or a value is unknown.
    """
    if name not in MAKERS:
        raise MillraceError("tuner.name", name, ", ".join(names()), "Name an optimizer of this list in the spec.")
    return MAKERS[name](options)


def placement(options: Options) -> Optimizer:
    """Return ``albic``, the optimizer that says where key groups are to sit.

    Args:
        options: Its options by name; what is absent has its default.

    Raises:
        MillraceError: If an option or a value is unknown.
    """
    from optimizers.albic.optimizer import PlacementOptimizer
    from optimizers.albic.options import parse

    return PlacementOptimizer(parse(options))


def admission(section: Options) -> Optimizer:
    """Return ``drfm``, the optimizer that says where input streams are to enter.

    Args:
        section: The spec's section ``admission``: capacity, options, streams, sizing.

    Raises:
        MillraceError: If an option or a value is unknown, or what is told of a stream contradicts itself.
    """
    from optimizers.drfm.optimizer import AdmissionOptimizer
    from optimizers.drfm.options import parse

    return AdmissionOptimizer(parse(section))


def join(section: Options) -> Optimizer:
    """Return ``esj``, the optimizer that says how many workers a stream join has, what it sheds, and its block size.

    Args:
        section: The spec's section ``join``: capacity, window_s, workers, expected_rows_per_s, options.

    Raises:
        MillraceError: If an option or a value is unknown, or thresholds are out of order.
    """
    from optimizers.esj.adviser import Adviser
    from optimizers.esj.options import parse

    return Adviser(parse(section))


class Wanted(Protocol):
    """What a pipeline's spec says of its optimizers."""

    @property
    def name(self) -> str:
        """Name of the pipeline."""
        ...

    @property
    def tuner_options(self) -> tuple[str, Options]:
        """Registry name of the tuner, and its options."""
        ...

    @property
    def placement_options(self) -> Options | None:
        """What :func:`placement` takes; None without it."""
        ...

    @property
    def admission_options(self) -> Options | None:
        """What :func:`admission` takes; None without it."""
        ...

    @property
    def join_options(self) -> Options | None:
        """What :func:`join` takes; None without it."""
        ...


def all_of(spec: Wanted) -> dict[str, Optimizer]:
    """Return the optimizers that a spec asks for, by the names that decisions know them by.

    Raises:
        MillraceError: If a name, an option or a value is unknown, or two contradict each other.
    """
    name, options = spec.tuner_options
    found = {name: create(name, options)}
    if spec.placement_options is not None:
        found["albic"] = placement(spec.placement_options)
    if spec.admission_options is not None:
        found[admissions.ADVISER] = admission(spec.admission_options)
    if spec.join_options is not None:
        found[joins.ADVISER] = join(spec.join_options)
    return found


def problems(specs: Iterable[Wanted]) -> list[MillraceError]:
    """Return what is wrong with what specs tell their optimizers, the first of each."""
    found = []
    for spec in specs:
        try:
            all_of(spec)
        except MillraceError as error:
            found.append(MillraceError(f"{spec.name}: {error.key}", error.value, error.allowed, error.remedy))
    return found


def names() -> tuple[str, ...]:
    """Return the registry names of all tuners in alphabetical order."""
    return tuple(sorted(MAKERS))


def _conttune(options: Options) -> Optimizer:
    from optimizers.conttune.paper.options import parse
    from optimizers.conttune.paper.tuner import ContTune

    return ContTune(parse(options))


def _flow(options: Options) -> Optimizer:
    from optimizers.conttune.flow.options import parse
    from optimizers.conttune.flow.tuner import Flow

    return Flow(parse(options))


def _ds2(options: Options) -> Optimizer:
    from optimizers.conttune.rivals.ds2 import Ds2, parse

    return Ds2(parse(options))


def _dhalion(options: Options) -> Optimizer:
    from optimizers.conttune.rivals.dhalion import Dhalion, parse

    return Dhalion(parse(options))


def _random(options: Options) -> Optimizer:
    from optimizers.conttune.rivals.random_search import RandomSearch, parse

    return RandomSearch(parse(options))


def _dragster(options: Options) -> Optimizer:
    from optimizers.conttune.rivals.dragster import Dragster, parse

    return Dragster(parse(options))


MAKERS: Mapping[str, Callable[[Options], Optimizer]] = {
    "conttune": _conttune,
    "flow": _flow,
    "ds2": _ds2,
    "dhalion": _dhalion,
    "random": _random,
    "dragster": _dragster,
}
