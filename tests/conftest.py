"""Settings of every test, and which tests only the benchmarks need."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# a property does not become false on a busy machine
settings.register_profile("whole", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=30)
settings.load_profile(os.environ.get("MILLRACE_TEST_PROFILE", "whole"))

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what tests benchmarks, simulations and rivals: no pipeline needs it, unless a spec names a rival."""
    for item in items:
        parts = item.path.relative_to(TESTS).parts
        if parts[0] == "benchmarks" or "rivals" in parts:
            item.add_marker("research")
