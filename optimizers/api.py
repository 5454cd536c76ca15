"""The optimizer interface: import everything that an optimizer needs of Millrace from here.

An optimizer is a class with an attribute ``Options``, a subclass of :class:`Options`. It is constructed with an
instance of it and has a method ``propose``. :mod:`millrace.optimizers.registry` finds it by name,
:mod:`millrace.optimizers.conformance` tests it, and ``docs/optimizers.md`` shows a complete example.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Change, Deployment
from millrace.model.errors import MillraceError, pydantic_reason
from millrace.model.protocols import HasModel, Optimizer
from millrace.model.signals import AppSignals, Signals

__all__ = [
    "AppSignals",
    "Change",
    "Deployment",
    "FromList",
    "HasModel",
    "Memory",
    "MillraceError",
    "Optimizer",
    "Options",
    "Proposal",
    "Signals",
]

FromList = BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given)
"""Marks a tuple that specs write as a list: ``Annotated[tuple[str, ...], FromList]``."""


class Options(BaseModel):
    """Base class of an optimizer's options: each is a pydantic field with a default and a range.

    Types are strict: ``"0.1"`` and ``true`` are not numbers. To check several fields together, write a
    ``model_validator`` that raises a :class:`MillraceError`.

    Attributes:
        section: Key of the spec section with the options; errors name it.

    Raises:
        MillraceError: On construction, if an option is unknown or a value has the wrong type or is out of range; with
            key, value, allowed range and remedy.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    section: ClassVar[str] = "tuner.options"

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise _refusal(type(self), error) from None

    @classmethod
    def read(cls, given: Mapping[Any, Any]) -> Self:
        """Return the options from a section of a spec; missing options get their defaults."""
        return cls(**{str(name): value for name, value in given.items()})


def _refusal(model: type[Options], error: ValidationError) -> MillraceError:
    """Return the first pydantic error as a readable one."""
    first = error.errors(include_url=False)[0]
    location = [part for part in first["loc"] if part != "[key]"]
    key = model.section + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    if first["type"] == "extra_forbidden" and len(location) == 1:
        allowed = ", ".join(sorted(model.model_fields))
        return MillraceError(key, first["input"], allowed, "Remove the option or correct its name.")
    field = model.model_fields.get(str(location[0])) if len(location) == 1 else None
    message = pydantic_reason(first["msg"])
    allowed = (field and (allowed_values(field) or field.description)) or message
    if first["type"] == "missing":
        return MillraceError(key, None, allowed, "Set it.")
    return MillraceError(key, first["input"], allowed, "Set an allowed value.")


def allowed_values(field: FieldInfo) -> str | None:
    """Return the allowed values of a field as text; None unless it is a word, a switch or a number."""
    kind: Any = field.annotation
    if get_origin(kind) in (Union, UnionType):
        kind = next(k for k in get_args(kind) if k is not NoneType)
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    if kind is bool:
        return "true or false"
    return _range(kind, field) if kind in (int, float) else None


def _range(kind: type, field: FieldInfo) -> str:
    names = ("ge", "gt", "le", "lt", "allow_inf_nan")
    limits = {name: getattr(m, name) for m in field.metadata for name in names if hasattr(m, name)}
    low, high = limits.get("ge", limits.get("gt", -math.inf)), limits.get("le", limits.get("lt", math.inf))
    if kind is int and high == math.inf:
        return "a whole number" if low == -math.inf else f"a whole number >= {low + ('gt' in limits):g}"
    closed = "le" in limits or (high == math.inf and limits.get("allow_inf_nan"))
    ends = f"{'[' if 'ge' in limits else '('}{low:g}, {high:g}{']' if closed else ')'}"
    return f"a {'whole ' if kind is int else ''}number in {ends}"
