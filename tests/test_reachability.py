"""What is measured is what runs: each of the papers' algorithms has a spec key and a live test, or is a benchmark's."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.algorithms import DOCUMENT, Algorithm, Published, document, table
from millrace.model.spec import PipelineSpec
from millrace.optimizers.registry import all_of, registered
from millrace.pipelines.spec_yaml import read_file
from millrace.places import PACKAGE, REPO
from tests.source_tree import closure, module_of, modules, parsed

TABLE = table()
EXAMPLES = PACKAGE / "pipelines" / "examples"
RUN_BY_MILLRACE = ("millrace.dags.", "millrace.jobs.", "millrace.plugins.")
RUN_BY_PEOPLE = ("millrace.pipelines.examples.", "millrace.pipelines.scripts.", "millrace.local.feeds.")
RESEARCH = (
    *(f"millrace.optimizers.{name}" for name in ("conttune", "albic", "drfm", "esj")),
    *("millrace.joins", "millrace.windows"),
)
"""Packages in which every module is reached, published, or listed with a reason."""
LIVE = {"spark", "e2e", "platform", "slow"}
"""Marks of tests on real Spark and real processes."""


def reached() -> set[str]:
    """Return the modules that a pipeline can run."""
    start = {name for name in modules() if f"{name}.".startswith(RUN_BY_MILLRACE)}
    return closure(start | {of.path.partition(":")[0] for of in registered()})


def used_by_scripts() -> set[str]:
    """Return the modules that a shipped script or feed can run."""
    return closure(name for name in modules() if name.startswith(RUN_BY_PEOPLE))


def with_part(whole: Any, part: Any) -> Any:
    """Return a spec with a part added, key by key."""
    if not isinstance(whole, Mapping) or not isinstance(part, Mapping):
        return part
    return {**whole, **{key: with_part(whole.get(key), value) for key, value in part.items()}}


def marks(nodes: list[ast.expr]) -> set[str]:
    """Return the names of pytest's marks in expressions."""
    inner = (part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Attribute))
    return {part.attr for part in inner if ast.unparse(part.value) == "pytest.mark"}


def marks_of_tests(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield the tests of a file with their marks."""
    body = parsed(path).body
    every = [
        node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name, marks([*every, *node.decorator_list])


def words(path: Path) -> set[str]:
    """Return the names and attributes that a script uses."""
    found = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.Name | ast.Attribute))
    return {node.id if isinstance(node, ast.Name) else node.attr for node in found}


rows = pytest.mark.parametrize("row", TABLE.algorithms, ids=lambda row: f"{row.paper}: {row.name}")


@rows
def test_module_of_an_algorithm_can_run(row: Algorithm) -> None:
    assert row.module in modules(), f"{row.name}: there is no module {row.module}"
    assert row.is_only_measured or row.module in reached() | used_by_scripts(), (
        f"{row.name}: no DAG, job, plugin or registered optimizer imports {row.module}: make it reachable, or move it "
        "to benchmarks"
    )


@rows
def test_spec_key_of_an_algorithm_is_accepted(row: Algorithm) -> None:
    if row.spec is None:
        return
    whole = read_file(EXAMPLES / row.base) if row.base else {"name": "p", "script": "p.py"}
    spec = PipelineSpec.model_validate(with_part(whole, row.spec))
    assert all_of(spec)


@rows
def test_live_test_of_an_algorithm_exists(row: Algorithm) -> None:
    if row.live_test is None:
        return
    file, _, name = row.live_test.partition("::")
    assert (REPO / file).exists(), f"{row.name}: there is no {file}"
    found = dict(marks_of_tests(REPO / file))
    assert name in found, f"{row.name}: {file} has no {name}"
    assert found[name] & LIVE, f"{row.name}: {name} has none of the marks {', '.join(sorted(LIVE))}"


def test_page_has_every_algorithm() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(TABLE), "run python -m benchmarks.algorithms"


def test_every_module_is_reached_published_or_listed() -> None:
    of_papers = {name for name in modules() if f"{name}.".startswith(tuple(f"{package}." for package in RESEARCH))}
    scripts = {module_of(EXAMPLES / each.example) for each in TABLE.published}
    lost = of_papers - reached() - closure(scripts)
    unlisted = sorted(lost - TABLE.unreached.keys())
    assert not unlisted, (
        f"no pipeline and no published function uses {', '.join(unlisted)}: delete or move to benchmarks"
    )
    found = sorted(TABLE.unreached.keys() - lost)
    assert not found, f"take {', '.join(found)} out of unreached in benchmarks/algorithms.yaml"


@pytest.mark.parametrize("each", TABLE.published, ids=lambda each: f"{each.module} in {each.example}")
def test_example_uses_the_functions_that_it_shows(each: Published) -> None:
    script = EXAMPLES / each.example
    assert script.exists() and each.module in closure([module_of(script)])
    unused = set(each.names) - words(script)
    assert not unused, f"{each.example} does not use {', '.join(sorted(unused))}"


@pytest.mark.parametrize("module", sorted({each.module for each in TABLE.published}))
def test_published_functions_have_an_example(module: str) -> None:
    """Aggregates that work like Spark's, under the same name, need none."""
    from pyspark.sql import functions as like_spark

    names = next(
        ast.literal_eval(node.value)
        for node in parsed(modules()[module]).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    shown = {name for each in TABLE.published if each.module == module for name in each.names}
    missing = {name for name in names if name.islower() and not hasattr(like_spark, name)} - shown
    assert not missing, f"no shipped example uses {', '.join(sorted(missing))} of {module}"
