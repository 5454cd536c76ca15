"""Benchmarks start some modules by name, in their own processes. A broken import shows late there."""

from __future__ import annotations

import importlib

import pytest

from millrace.places import REPO

MODULES = sorted(
    ".".join(path.relative_to(REPO).with_suffix("").parts)
    for path in (REPO / "benchmarks").rglob("*.py")
    if "scripts" not in path.parts
)


@pytest.mark.parametrize("module", MODULES)
def test_module_can_be_imported(module: str) -> None:
    importlib.import_module(module)
