"""Which package may import which, and what third-party packages each may use (docs/architecture.md)."""

from __future__ import annotations

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from millrace.places import PACKAGE, REPO
from tests.source_tree import RIVALS, imported_modules, module_of, modules, sources

INSIDE = {f"millrace.{path.stem}" for path in PACKAGE.iterdir() if not path.is_symlink()}
"""The rooms that lie in include/millrace itself."""
OPTIMIZERS, PLUGINS, JOBS = "millrace.optimizers", "millrace.plugins", "millrace.jobs"

# room -> other rooms of the repo that it may import
MAY_IMPORT = {
    "millrace.model": set(),
    "millrace.places": set(),
    "millrace.environment": {"millrace.model", "millrace.places"},
    "millrace.lake": {"millrace.model", "millrace.places"},
    "millrace.atomic_file": {"millrace.model"},
    "millrace.run_folder": {"millrace.model", "millrace.atomic_file"},
    "millrace.pipelines": {"millrace.model", "millrace.places", "millrace.windows"},
    "millrace.windows": {"millrace.model"},
    "millrace.drivers": {
        *("millrace.model", "millrace.lake", "millrace.run_folder", "millrace.atomic_file", "millrace.places"),
        "millrace.fleet",
    },
    "millrace.control": {"millrace.model", "millrace.lake", "millrace.drivers", "millrace.fleet"},
    "millrace.runtime": {"millrace.model", "millrace.lake", "millrace.run_folder", "millrace.windows"},
    "millrace.joins": {"millrace.model", "millrace.lake", "millrace.atomic_file", "millrace.places"},
    "millrace.fleet": {
        *("millrace.model", "millrace.lake", "millrace.run_folder", "millrace.atomic_file", "millrace.runtime"),
        "millrace.pipelines",
    },
    "millrace.reporting": {
        *("millrace.model", "millrace.lake", "millrace.control", "millrace.fleet", "millrace.run_folder"),
    },
    "millrace.run": {"millrace", "millrace.runtime"},
    "millrace.wiring": {*INSIDE - {"millrace.local", "millrace.evaluator"}, OPTIMIZERS},
    "millrace.evaluator": {
        *("millrace.model", "millrace.control", "millrace.pipelines", "millrace.reporting", "millrace.wiring"),
        OPTIMIZERS,
    },
    "millrace.local": {*INSIDE, OPTIMIZERS, "benchmarks"},
    OPTIMIZERS: {"millrace.model"},
    RIVALS: {"millrace.model", OPTIMIZERS},
    JOBS: INSIDE,
    PLUGINS: {*INSIDE - {"millrace.local"}, OPTIMIZERS},
    "millrace.dags": {*INSIDE - {"millrace.local"}, OPTIMIZERS, PLUGINS},
    "benchmarks": {*INSIDE, OPTIMIZERS, RIVALS, PLUGINS, JOBS},
}

# third-party packages that only some rooms may use
RESERVED = {
    "deltalake": {"millrace.lake"},
    "airflow": {"millrace.dags", PLUGINS},
    "mlflow": {"millrace.reporting"},
    "opentelemetry": {"millrace.reporting"},
    "confluent_kafka": {"millrace.local", "millrace.fleet"},
    "great_expectations": {"millrace.control"},
    "skopt": {OPTIMIZERS, RIVALS, "millrace.reporting"},
    "pyspark": {JOBS, *(f"millrace.{room}" for room in ("runtime", "joins", "fleet", "windows", "pipelines"))},
}
PURE = {
    OPTIMIZERS: {"numpy", "pydantic", "scipy", "sklearn", "skopt", "ortools", "pymetis"},
    RIVALS: {"numpy", "pydantic", "scipy", "sklearn", "skopt"},
    "millrace.model": {"croniter", "numpy", "pydantic", "pydantic_core"},
}
SUITE = f"{OPTIMIZERS}.conformance"
"""The tests that every optimizer passes, ours and others'."""
CLOCK_AND_FILES = {"time", "pathlib", "os", "io", "subprocess", "socket", "shutil", "tempfile"}

# built-in pipelines' scripts are users' programs: they know nothing of Millrace, except libraries that work alone
USERS_SCRIPTS = (PACKAGE / "pipelines" / "scripts", PACKAGE / "pipelines" / "examples")
LIBRARIES = {"millrace.windows"}


def _room(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "millrace" else parts[0]


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative imports hide the room"
            found |= {f"millrace.{a.name}" for a in node.names} if node.module == "millrace" else {node.module}
    return found


OURS = {"millrace", RIVALS, "benchmarks", "tests"}


@pytest.mark.parametrize("path", list(sources()), ids=lambda p: str(p.relative_to(REPO)))
def test_import_uses_only_allowed_rooms(path: Path) -> None:
    room = _room(module_of(path))
    if room == "millrace" or room == "millrace.__init__":
        return
    assert room in MAY_IMPORT, f"{room} is no package of docs/architecture.md: add it there, or move the file"
    for module in _imports(path):
        top = module.split(".")[0]
        if top in OURS:
            target = _room(module)
            allowed = MAY_IMPORT[room] | {room}
            users = any(path.is_relative_to(folder) for folder in USERS_SCRIPTS)
            assert not users or target in LIBRARIES, f"{path.name}: a user's script knows nothing of Millrace"
            assert target in allowed or top in allowed, f"{room} must not import {module}"
        elif top in RESERVED:
            assert room in RESERVED[top] or room == "benchmarks", f"{room} must not import {top}"


@pytest.mark.parametrize("room", sorted(PURE))
def test_pure_rooms_import_no_clock_no_files_no_other_library(room: str) -> None:
    import sys

    for path in (p for p in sources() if _room(module_of(p)) == room):
        for module in _imports(path):
            top = module.split(".")[0]
            suite = {"pytest", "hypothesis"} if module_of(path).startswith(SUITE) else set()
            known = top in OURS or top in sys.stdlib_module_names or top in PURE[room] | suite
            assert known, f"{path}: {room} must not import {top}"
            if room in (OPTIMIZERS, RIVALS):
                assert top not in CLOCK_AND_FILES, f"{path}: optimizers have no clock and no files, found {top}"


def test_files_are_never_called_utils() -> None:
    names = {p.stem for p in sources()}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


def test_jobs_folder_on_the_workers_path_hides_no_python_module() -> None:
    hidden = {file.stem for file in (REPO / "jobs").glob("*.py")} & set(sys.stdlib_module_names)
    assert not hidden


def test_modules_import_each_other_without_cycles() -> None:
    graph = {module: imported_modules(path, modules()) for module, path in modules().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' -> '.join(error.args[1])}")
