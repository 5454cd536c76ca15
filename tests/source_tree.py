"""The repository's modules and what they import, read from their sources."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from millrace.places import PACKAGE, REPO, SOURCES

RIVALS = "millrace_rivals"
# set under Airflow's own name, imported only by Airflow
NOT_OURS = {PACKAGE / "local" / "stack" / "airflow" / "airflow_local_settings.py"}


def sources() -> Iterator[Path]:
    """Yield every Python file of the product and the benchmarks."""
    linked = (REPO / name for name in ("optimizers", "jobs", "plugins", "dags", "benchmarks"))
    for top in (PACKAGE, SOURCES / RIVALS, *linked):
        yield from sorted(f for f in top.rglob("*.py") if f not in NOT_OURS)


def module_of(path: Path) -> str:
    """Return a file's module; that of a package ends with ``__init__``."""
    if path.is_relative_to(SOURCES):
        return ".".join(path.relative_to(SOURCES).with_suffix("").parts)
    name = ".".join(path.relative_to(REPO).with_suffix("").parts)
    return name if name.startswith("benchmarks") else f"millrace.{name}"


@cache
def modules() -> Mapping[str, Path]:
    """Return the file of each module."""
    return {module_of(path).removesuffix(".__init__"): path for path in sources()}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_modules(path: Path, known: Container[str]) -> set[str]:
    """Return the known modules that a file imports, including those for types and inside functions."""
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in known else node.module for name in inner}
    return {name for name in names if name in known}


def closure(start: Iterable[str]) -> set[str]:
    """Return the modules that are imported when these are, themselves and packages included."""
    known, found, waiting = modules(), set[str](), list(start)
    while waiting:
        module = waiting.pop()
        if module in found or module not in known:
            continue
        found.add(module)
        waiting += imported_modules(known[module], known) | {module.rpartition(".")[0]}
    return found
