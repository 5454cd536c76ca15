"""Settings of every test, and the tests that only benchmarks need."""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from hypothesis import settings

from millrace.places import REPO, SOURCES
from tests.object_stores.azure import azure
from tests.object_stores.google import google
from tests.object_stores.place import Place
from tests.s3.server import Bucket, bucket

# a property does not become false on a busy machine
settings.register_profile("whole", deadline=None, max_examples=20)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile(os.environ.get("MILLRACE_TEST_PROFILE", "whole"))

TESTS = Path(__file__).parent
# import path of Python processes that tests start: tests and benchmarks, and the package
os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (REPO, SOURCES)))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Bucket]:
    with bucket() as found:
        yield found


@pytest.fixture
def s3(s3_server: Bucket, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Yield a bucket with the test's own lake, configured for clients in this process."""
    for key, value in s3_server.environment.items():
        monkeypatch.setenv(key, value)
    return replace(s3_server, lake=f"{s3_server.lake}/{request.node.name}")


@pytest.fixture(scope="session")
def google_server() -> Iterator[Place]:
    with google() as found:
        yield found


@pytest.fixture(scope="session")
def azure_server() -> Iterator[Place]:
    with azure() as found:
        yield found


@pytest.fixture(params=["s3", "google", "azure"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Yield a bucket of each kind with the test's own lake, configured for clients in this process."""
    found = request.getfixturevalue(f"{request.param}_server")
    if isinstance(found, Bucket):
        found = Place(found.lake, found.environment, "s3://no-such-bucket/lake")
    for key, value in found.environment.items():
        monkeypatch.setenv(key, value)
    return replace(found, lake=f"{found.lake}/{request.node.originalname}")


MARKS = ("spark", "airflow", "e2e", "slow", "platform", "versions", "research")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files in which ``-m`` cannot select a test: importing all of them takes longer than some stages."""
    wanted = config.option.markexpr
    if not collection_path.name.startswith("test_") or not wanted:
        return None
    asked = compile(wanted, "-m", "eval")
    if not set(asked.co_names) <= set(MARKS):
        return None
    everywhere, somewhere = _marks_in(collection_path)
    some = sorted(somewhere - everywhere)
    for chosen in product((False, True), repeat=len(some)):
        given = dict.fromkeys(MARKS, False) | dict.fromkeys(everywhere, True) | dict(zip(some, chosen, strict=True))
        if eval(asked, {}, given):
            return None
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests of benchmarks, simulations and rivals: pipelines do not need them, unless a spec names a rival."""
    for item in items:
        if _is_research(item.path):
            item.add_marker("research")
        unread = {mark.name for mark in item.iter_markers()} & set(MARKS) - _marks_in(item.path)[1]
        if unread:
            raise pytest.UsageError(f"{item.nodeid}: name pytest.mark.{min(unread)} in the test's own file")


@cache
def _marks_in(file: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the marks that all tests of a file have, and those that its tests may have, by the names in its text."""
    text = file.read_text()
    all_have = "".join(re.findall(r"^pytestmark = .*$", text, re.MULTILINE))
    research = {"research"} if _is_research(file) else set()
    everywhere, somewhere = ({m for m in MARKS if f"mark.{m}" in part} | research for part in (all_have, text))
    return frozenset(everywhere), frozenset(somewhere)


def _is_research(file: Path) -> bool:
    if not file.is_relative_to(TESTS):
        return False
    parts = file.relative_to(TESTS).parts
    return parts[0] == "benchmarks" or "rivals" in parts
