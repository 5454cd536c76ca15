"""Convert contracts to JSON and back: the lake and the run folder return the same objects that they stored.

Times are written as ISO 8601 in UTC, and numbers that JSON does not have (nan and the infinities) as null. Pydantic
reads them into the plain dataclasses of this package. It ignores unknown keys, which a newer release may have written.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, core_schema

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return ``value`` as JSON-able types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
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


def from_plain(kind: type[T], value: Any) -> T:
    """Return the ``kind`` that ``to_plain`` was given.

    Raises:
        ValueError: If the value fits no ``kind``: the keys that are wrong, and why.
    """
    try:
        return cast(T, _validator(cast(Any, kind)).validate_python(value))
    except ValidationError as error:
        raise _unfit(kind, error) from None


def from_json(kind: type[T], text: str | bytes) -> T:
    """Return the ``kind`` that ``to_json`` was given.

    Raises:
        ValueError: If the text fits no ``kind``: the keys that are wrong, and why.
    """
    try:
        return cast(T, _validator(cast(Any, kind)).validate_json(text))
    except ValidationError as error:
        raise _unfit(kind, error) from None


def _unfit(kind: Any, error: ValidationError) -> ValueError:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    reasons = (f"{'.'.join(map(str, problem['loc'])) or 'value'}: {problem['msg']}" for problem in problems)
    return ValueError(f"no {getattr(kind, '__name__', kind)}: {'; '.join(reasons)}")


@cache
def _validator(kind: Any) -> SchemaValidator:
    return SchemaValidator(_as_stored(TypeAdapter(kind).core_schema))


def _as_stored(schema: Any) -> Any:
    """Return pydantic's schema of a type, with null for any number that was not finite, and all times in UTC."""
    if isinstance(schema, list):
        return [_as_stored(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts: Any = {key: _as_stored(part) for key, part in schema.items()}
    if parts.get("type") == "float":
        return core_schema.nullable_schema(parts)
    if parts.get("type") == "datetime":
        return core_schema.no_info_after_validator_function(lambda time: time.astimezone(UTC), parts)
    return parts
