"""Contracts to JSON and back, so that what a Decision stored can be replayed as the same objects."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return ``value`` as JSON-able types; datetimes as ISO 8601 in UTC, non-finite numbers as None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(v) for v in value]
    if hasattr(value, "item"):  # numpy scalars
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def to_json(value: Any) -> str:
    """Return ``value`` as compact JSON with sorted keys."""
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"))


def from_json(kind: type[T], text: str) -> T:
    """Return the ``kind`` that ``to_json`` wrote as ``text``."""
    return typing.cast(T, from_plain(kind, json.loads(text)))


def from_plain(kind: Any, value: Any) -> Any:
    """Return ``value``, made by ``to_plain``, as an instance of the type ``kind``."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return from_plain(next(a for a in args if a is not type(None)), value)
    if dataclasses.is_dataclass(kind):
        hints = _hints(typing.cast(type, kind))
        make = typing.cast(Any, kind)
        return make(**{name: from_plain(hints[name], v) for name, v in value.items() if name in hints})
    if origin is tuple:
        return tuple(from_plain(args[0], v) for v in value)
    if origin is not None and issubclass(origin, Mapping):
        return {k: from_plain(args[1], v) for k, v in value.items()}
    if kind is datetime:
        return datetime.fromisoformat(value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if kind is float and value is not None:
        return float(value)
    return value


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
