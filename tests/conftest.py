"""Settings of every test, and which tests only the benchmarks need."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings

from millrace.places import REPO, SOURCES
from tests.s3.server import Bucket, bucket

# a property does not become false on a busy machine
settings.register_profile("whole", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=30)
settings.load_profile(os.environ.get("MILLRACE_TEST_PROFILE", "whole"))

TESTS = Path(__file__).parent
# what Python processes that tests start import from: tests and benchmarks, and the package
os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (REPO, SOURCES)))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Bucket]:
    with bucket() as found:
        yield found


@pytest.fixture
def s3(s3_server: Bucket, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Give a bucket with a lake of the test's own, which clients of this process find."""
    for key, value in s3_server.environment.items():
        monkeypatch.setenv(key, value)
    return replace(s3_server, lake=f"{s3_server.lake}/{request.node.name}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what tests benchmarks, simulations and rivals: no pipeline needs it, unless a spec names a rival."""
    for item in items:
        parts = item.path.relative_to(TESTS).parts
        if parts[0] == "benchmarks" or "rivals" in parts:
            item.add_marker("research")
