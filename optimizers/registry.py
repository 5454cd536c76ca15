"""From the name in a pipeline's spec to an optimizer.

To add one: a package of its own beside ``conttune`` that implements ``include.contracts.protocols.Optimizer``, a
maker here that imports it inside the function, and a subclass of the conformance suite
(``tests/optimizers/conformance.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from include.contracts.errors import MillraceError
from include.contracts.protocols import Optimizer

Options = Mapping[str, Any]


def create(name: str, options: Options) -> Optimizer:
    """Return the optimizer of a registry name.

    Args:
        name: One of :func:`names`.
        options: Its options by name; what is absent has its default.

    Raises:
        MillraceError: If the name, an option or a value is unknown.
    """
    if name not in MAKERS:
        raise MillraceError("tuner.name", name, ", ".join(names()), "Name an optimizer of this list in the spec.")
    return MAKERS[name](options)


def names() -> tuple[str, ...]:
    """Return all registry names in alphabetical order."""
    return tuple(sorted(MAKERS))


def _conttune(options: Options) -> Optimizer:
    from optimizers.conttune.options import parse
    from optimizers.conttune.tuner import ContTune

    return ContTune(parse(options))


MAKERS: Mapping[str, Callable[[Options], Optimizer]] = {"conttune": _conttune}
