"""Write docs/spec.md: every key of a pipeline spec, from the models that check it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from millrace.places import REPO

FILE = REPO / "docs" / "spec.md"
HEAD = """\
# The pipeline spec

One YAML file describes a pipeline: YAML 1.2 in UTF-8, so `on`, `yes` and `22:00` are text. Each key may occur once.
If a key takes text, quote numbers, `true` and `false`. `${MILLRACE_HOME}` is replaced in every text; any other `$`
stays as written. Unknown keys and values out of range are errors that name key, value and remedy. Editors find the same
rules in `include/millrace/pipelines/pipeline.schema.json`. `python -m millrace.pipelines.schema` writes that
file and this page.
"""
RANGES = {"minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}", "exclusiveMaximum": "< {}"}
NULL = {"type": "null"}


def text(schema: Mapping[str, Any]) -> str:
    """Return the page.

    Args:
        schema: The JSON schema of a spec.
    """
    parts = [HEAD, *_section("", schema, schema["$defs"])]
    return "\n".join([*parts, ""])


def _section(path: str, model: Mapping[str, Any], models: Mapping[str, Any]) -> Iterator[str]:
    """Yield a section's table, then the tables of its subsections."""
    if path:
        yield f"\n## `{path}`\n"
        yield f"{_sentence(model)}\n"
    yield "| key | value | default | |\n|---|---|---|---|"
    inside: list[tuple[str, Mapping[str, Any]]] = []
    for key, value in model["properties"].items():
        nested = _nested(value, models)
        if nested is not None:
            inside.append((f"{path}.{key}{nested[0]}".lstrip("."), nested[1]))
            kind = f"[section](#{_anchor(inside[-1][0])})"
            told = value.get("description") or _sentence(nested[1]).removesuffix(".")
        else:
            kind, told = _kind(value, models), value["description"]
        required = "required" if key in model.get("required", ()) else _default(value, nested is not None)
        yield f"| `{key}` | {kind} | {required} | {_cell(told)} |"
    for section, nested_model in inside:
        yield from _section(section, nested_model, models)


def _nested(value: Mapping[str, Any], models: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the model of a value, a list's items or a mapping's values, with the suffix of its path."""
    for suffix, inner in (("", value), ("[]", value.get("items", {})), (".NAME", _of_mapping(value))):
        for option in inner.get("anyOf", [inner]):
            model = models.get(str(option.get("$ref", "")).rpartition("/")[2], {})
            if "properties" in model:
                return suffix, model
    return None


def _of_mapping(value: Mapping[str, Any]) -> Mapping[str, Any]:
    patterns = value.get("patternProperties")
    values = next(iter(patterns.values())) if patterns else value.get("additionalProperties", {})
    return values if isinstance(values, dict) else {}


def _kind(value: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    """Return type and range of a plain value."""
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_kind(option, models) for option in value["anyOf"] if option != NULL))
    if "$ref" in value:
        return _kind(models[value["$ref"].rpartition("/")[2]], models)
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    kind = str(value.get("type", "anything"))
    if kind == "array":
        items = value.get("items") or value.get("prefixItems", [{}])[0]
        return f"list of {_kind(items, models)}"
    if kind == "object":
        inner = _of_mapping(value)
        return f"mapping to {_kind(inner, models)}" if inner else "mapping"
    ranges = [form.format(f"{value[name]:g}") for name, form in RANGES.items() if name in value]
    return " ".join([kind, ", ".join(ranges)]).strip()


def _default(value: Mapping[str, Any], is_section: bool) -> str:
    default = value.get("default")
    if default in (None, "", [], {}) or is_section:
        return ""
    return ", ".join(f"`{word}`" for word in default) if isinstance(default, list) else f"`{json.dumps(default)}`"


def _anchor(path: str) -> str:
    return path.replace(".", "").replace("[]", "").lower()


def _sentence(model: Mapping[str, Any]) -> str:
    return str(model["description"]).splitlines()[0].replace("``", "`")


def _cell(told: str) -> str:
    return told.replace("|", "\\|")
