"""Find, read and check pipeline specs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from millrace.model import submit_conf
from millrace.model.errors import MillraceError, pydantic_reason
from millrace.model.spec import PipelineSpec
from millrace.pipelines.spec_paths import existing, with_absolute_paths
from millrace.pipelines.spec_yaml import read_file
from millrace.places import IN_CHECKOUT, home_folder

BUILT_IN = Path(__file__).parent / "specs"
EXAMPLES = BUILT_IN.with_name("examples")
FOLDERS_VARIABLE = "MILLRACE_PIPELINES"
DEFAULTS, OTHER_SUFFIX = "_defaults.yaml", "_defaults.yml"
"""File in a folder of specs with default sections for all of them, and its other name."""
OWN_KEYS = frozenset({"name", "script", "args", "apps", "fleet"})
"""Keys that pipelines cannot share."""


def spec_folders() -> list[Path]:
    """Return the folders with specs, each once: those in MILLRACE_PIPELINES, separated by ``:``, and the built-in one.

    The built-in folder is included in a checkout only. If Millrace is installed into an Airflow, that Airflow shows
    only its own pipelines.
    """
    extra = [_expanded(p) for p in os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if p]
    return list(dict.fromkeys([BUILT_IN, *extra] if IN_CHECKOUT else extra))


def spec_files() -> list[Path]:
    """Return every spec file in name order, except names that start with an underscore or a dot."""
    found = (file for folder in spec_folders() if not _fault(folder) for file in folder.glob("[!_.]*.y*ml"))
    return sorted(found, key=lambda file: file.name)


def load(path: Path, variables: Mapping[str, str] | None = None) -> PipelineSpec:
    """Read one spec, with its folder's defaults.

    Replaces ``${MILLRACE_HOME}`` in texts, but no other ``$``, and makes the paths of scripts and tables absolute.

    Args:
        path: The YAML file.
        variables: Variables to replace; by default MILLRACE_HOME from the environment.

    Raises:
        MillraceError: If the file is malformed, a key is unknown, a value is out of range, or the script
            does not exist.
    """
    raw = _parsed(path, "Start with `name: <pipeline>`.")
    shared_file, defaults = _defaults(path.parent)
    try:
        spec = PipelineSpec.model_validate(_replaced({**defaults, **raw}, variables or _variables()))
    except ValidationError as error:
        section = next(iter(error.errors()[0]["loc"]), None)
        shared = section in defaults and section not in raw
        raise _explained(shared_file if shared else path, error) from None
    spec = with_absolute_paths(path, spec)
    scripts = {}
    for name, of_app in spec.app_specs.items():
        _check_conf(path, of_app)
        if of_app.submit.is_external:
            scripts[name] = ""
            continue  # it may be on another machine
        scripts[name] = str(existing(path, f"apps.{name}.script" if spec.apps else "script", of_app.script))
    if not spec.apps:
        return spec.model_copy(update={"script": scripts[spec.app]})
    apps = {name: section.model_copy(update={"script": scripts[name]}) for name, section in spec.apps.items()}
    return spec.model_copy(update={"apps": apps})


def load_all() -> tuple[dict[str, PipelineSpec], list[MillraceError]]:
    """Return the valid specs by name, and a problem for each other spec and each folder that cannot be searched.

    An invalid spec never hides a valid one.
    """
    specs: dict[str, PipelineSpec] = {}
    problems = [
        MillraceError(
            FOLDERS_VARIABLE, str(folder), "folders with specs", f"It {fault}. Correct the path or the folder."
        )
        for folder in spec_folders()
        if (fault := _fault(folder))
    ]
    for path in spec_files():
        try:
            spec = load(path)
        except MillraceError as error:
            problems.append(error)
            continue
        if spec.name in specs:
            problems.append(
                MillraceError(f"{path.name}: name", spec.name, "a unique name", "Rename one of the two pipelines.")
            )
            continue
        specs[spec.name] = spec
    return specs, problems


def find(name: str) -> PipelineSpec:
    """Return the spec of one pipeline.

    Raises:
        MillraceError: If there is no such pipeline, or its file is invalid.
    """
    named = [path for path in spec_files() if _mentions(path, name)]  # an evaluation must not read all the others
    for path in named:
        with suppress(MillraceError):
            if (spec := load(path)).name == name:
                return spec
    for path in named:
        if name in (path.stem, _declared_name(path)):
            load(path)  # raises its problem
    names = ", ".join(sorted(load_all()[0])) or "none yet"
    folders = ", ".join(f"{f} ({fault})" if (fault := _fault(f)) else str(f) for f in spec_folders())
    searched = f"add a spec to a folder that was searched: {folders}" if folders else f"set {FOLDERS_VARIABLE}"
    raise MillraceError("pipeline", name, names, f"Use one of these names, or {searched}.")


def _expanded(folder: str) -> Path:
    with suppress(RuntimeError):  # no such user: the folder does not exist
        return Path(folder).expanduser()
    return Path(folder)


def _fault(folder: Path) -> str:
    """Return why a folder cannot be searched; empty if it can. pathlib takes a folder without permission for empty."""
    try:
        os.scandir(folder).close()
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""


def _parsed(path: Path, remedy: str) -> dict[str, Any]:
    raw = read_file(path)
    if not isinstance(raw, dict):
        raise MillraceError(path.name, raw, "a mapping of keys to values", remedy)
    return raw


def _defaults(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    path, other = folder / DEFAULTS, folder / OTHER_SUFFIX
    try:
        files = [file for file in (path, other) if file.is_file()]
    except OSError as error:  # pathlib hides only some
        raise MillraceError(path.name, str(path), "a readable file", f"Fix its permissions ({error}).") from None
    if not files:
        return path, {}
    if len(files) > 1:
        raise MillraceError(other.name, str(other), "one file with defaults", f"Merge it into {path.name}.")
    (path,) = files
    defaults = _parsed(path, "Write spec sections such as `alerts:`, or remove the file.")
    if own := sorted(OWN_KEYS & defaults.keys()):
        raise MillraceError(
            f"{path.name}: {own[0]}", defaults[own[0]], "keys that pipelines share", f"Remove `{own[0]}`."
        )
    return path, defaults


def _mentions(path: Path, name: str) -> bool:
    """Return whether a file may be the spec of a pipeline; True if it cannot be read."""
    try:
        return name in path.stem or name.encode() in path.read_bytes()
    except OSError:
        return True


def _declared_name(path: Path) -> object:
    """Return the pipeline name in a file, even if the rest is invalid; None if the file cannot be read."""
    with suppress(MillraceError):
        return _parsed(path, "").get("name")
    return None


def _variables() -> dict[str, str]:
    # resolved: a spec must not seem changed because a command runs in another folder
    return {"MILLRACE_HOME": str(home_folder())}


def _replaced(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for name, text in variables.items():
            value = value.replace(f"${{{name}}}", text)
        return value
    if isinstance(value, dict):
        return {k: _replaced(v, variables) for k, v in value.items()}
    if isinstance(value, list):
        return [_replaced(v, variables) for v in value]
    return value


def _check_conf(path: Path, spec: PipelineSpec) -> None:
    size = spec.executor_size
    try:
        submit_conf.check(spec.submit.conf, None if size is None else size.cores)
    except MillraceError as error:
        raise MillraceError(f"{path.name}: {error.key}", error.value, error.allowed, error.remedy) from None


def _explained(path: Path, error: ValidationError) -> MillraceError:
    errors = error.errors(include_url=False)
    # a misspelt key is missing too, under its right name
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    key = ".".join(str(part) for part in first["loc"])
    allowed, value = pydantic_reason(first["msg"]), first.get("input")
    remedy = f"Fix `{key}`."
    if not key:  # a check of the whole spec, which names the key first
        key, _, allowed = allowed.partition(": ") if ": " in allowed else ("spec", "", allowed)
        value, remedy = _at(value, key), f"Fix `{key}`."
    elif first["type"] == "extra_forbidden":
        allowed, remedy = "a known key", f"Remove or rename `{key}`."
    elif first["type"] == "missing":
        value, allowed, remedy = None, "a value", f"Set `{key}`."
    elif first["type"] == "string_type" and isinstance(value, bool | int | float):
        remedy = f"Write `{key}` in quotes."
    if isinstance(value, Mapping) and not all(isinstance(part, int | float) for part in value.values()):
        value = list(value)  # words may be secrets
    more = len(errors) - 1
    also = f" ({more} more problem{'s' if more > 1 else ''} in this file.)" if more else ""
    return MillraceError(f"{path.name}: {key}", value, allowed, remedy + also)


def _at(value: Any, key: str) -> Any:
    """Return what a spec has at a dotted key; None if there is nothing."""
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
