"""Which package may import which, and what third-party packages each may use (docs/architecture.md)."""

from __future__ import annotations

import ast
import sys
from collections.abc import Container, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# room -> other rooms of the repo that it may import
MAY_IMPORT = {
    "include.model": set(),
    "include.lake": {"include.model"},
    "include.atomic_file": {"include.model"},
    "include.run_folder": {"include.model", "include.atomic_file"},
    "include.pipelines": {"include.model"},
    "include.windows": {"include.model"},
    "include.drivers": {"include.model", "include.lake", "include.run_folder", "include.atomic_file"},
    "include.control": {"include.model", "include.lake", "include.drivers"},
    "include.runtime": {"include.model", "include.lake", "include.run_folder"},
    "include.joins": {"include.model", "include.lake", "include.atomic_file"},
    "include.reporting": {"include.model", "include.lake", "include.control"},
    "include.streaming": {"include.windows"},
    "include.wiring": {"include", "optimizers"},
    "include.local": {"include", "optimizers", "benchmarks"},
    "optimizers": {"include.model"},
    "jobs": {"include"},
    "plugins": {"include", "optimizers"},
    "dags": {"plugins", "include", "optimizers"},
    "benchmarks": {"include", "optimizers", "jobs", "plugins"},
}

# third-party packages that only some rooms may use
RESERVED = {
    "deltalake": {"include.lake"},
    "airflow": {"dags", "plugins"},
    "mlflow": {"include.reporting"},
    "opentelemetry": {"include.reporting"},
    "confluent_kafka": {"include.local"},
    "great_expectations": {"include.control"},
    "skopt": {"optimizers", "include.reporting"},
    "pyspark": {"jobs", "include.runtime", "include.joins", "include.windows", "include.pipelines"},
}
PURE = {
    "optimizers": {"numpy", "pydantic", "scipy", "sklearn", "skopt", "ortools", "pymetis"},
    "include.model": {"croniter", "numpy", "pydantic", "pydantic_core"},
}
SUITE = "optimizers.conformance"
"""The tests that every optimizer passes, ours and others'."""
CLOCK_AND_FILES = {"time", "pathlib", "os", "io", "subprocess", "socket", "shutil", "tempfile"}

# built-in pipelines' scripts are users' programs: they know nothing of Millrace
USERS_SCRIPTS = ROOT / "include" / "pipelines" / "scripts"
# set by Airflow's own name, imported by Airflow only
NOT_OURS = {ROOT / "include" / "local" / "stack" / "airflow" / "airflow_local_settings.py"}


def _sources() -> Iterator[Path]:
    for top in ("include", "optimizers", "jobs", "plugins", "dags", "benchmarks"):
        yield from sorted(f for f in (ROOT / top).rglob("*.py") if f not in NOT_OURS)


def _room(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "include" else parts[0]


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative imports hide the room"
            found.add(node.module)
    return found


OURS = {"include", "optimizers", "jobs", "plugins", "dags", "benchmarks", "tests"}


@pytest.mark.parametrize("path", list(_sources()), ids=lambda p: str(p.relative_to(ROOT)))
def test_import_when_made_then_goes_through_an_open_door(path: Path) -> None:
    room = _room(_module(path))
    if room == "include" or room == "include.__init__":
        return
    assert room in MAY_IMPORT, f"{room} is no package of docs/architecture.md: add it there, or move the file"
    for module in _imports(path):
        top = module.split(".")[0]
        if top in OURS:
            target = _room(module)
            allowed = MAY_IMPORT[room] | {room}
            assert not path.is_relative_to(USERS_SCRIPTS), f"{path.name}: a user's script knows nothing of Millrace"
            assert target in allowed or top in allowed, f"{room} must not import {module}"
        elif top in RESERVED:
            assert room in RESERVED[top] or room == "benchmarks", f"{room} must not import {top}"


@pytest.mark.parametrize("room", sorted(PURE))
def test_pure_rooms_when_imported_then_need_no_clock_no_files_no_other_library(room: str) -> None:
    import sys

    for path in (p for p in _sources() if _room(_module(p)) == room):
        for module in _imports(path):
            top = module.split(".")[0]
            suite = {"pytest", "hypothesis"} if _module(path).startswith(SUITE) else set()
            known = top in OURS or top in sys.stdlib_module_names or top in PURE[room] | suite
            assert known, f"{path}: {room} must not import {top}"
            if room == "optimizers":
                assert top not in CLOCK_AND_FILES, f"{path}: optimizers have no clock and no files, found {top}"


def test_files_when_listed_then_none_is_called_utils() -> None:
    names = {p.stem for p in _sources()}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


def test_jobs_when_spark_puts_their_folder_on_every_workers_path_then_they_hide_no_module_of_pythons() -> None:
    hidden = {file.stem for file in (ROOT / "jobs").glob("*.py")} & set(sys.stdlib_module_names)
    assert not hidden


def _modules() -> dict[str, Path]:
    return {_module(path).removesuffix(".__init__"): path for path in _sources()}


def test_modules_when_they_import_each_other_then_in_no_circle() -> None:
    modules = _modules()
    graph = {module: _imported_modules(path, modules) for module, path in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' -> '.join(error.args[1])}")


def _imported_modules(path: Path, modules: Container[str]) -> set[str]:
    """The repo's modules that a file imports, those for types and inside functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in modules else node.module for name in inner}
    return {name for name in names if name in modules}
