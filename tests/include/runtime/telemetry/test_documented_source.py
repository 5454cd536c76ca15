"""The source of docs/add_source.md, installed as a package of its own."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator

import pytest

from millrace.model.arrival import ArrivalBasis
from millrace.places import REPO
from millrace.runtime.telemetry.positions import Positions
from millrace.runtime.telemetry.sources.api import UNKNOWN, Position

PAGE = REPO / "docs" / "add_source.md"
MODULES = ("queue_service", "queue_position", "page_tests")
BATCH = {"description": "Queue[orders]", "startOffset": {"a": 1}, "endOffset": {"a": 4}, "numInputRows": 3}
OTHER = {"description": "Elsewhere[1]", "startOffset": 1, "endOffset": 4, "numInputRows": 3}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True, scope="module")
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The page's code and its entry point, as pip would install them, after a package that cannot be imported."""
    site = tmp_path_factory.mktemp("site")
    code = ("def newest_numbers(queue):\n    return {'a': 9}\n", *blocks("python"))
    for name, text in zip(MODULES, code, strict=True):
        (site / f"{name}.py").write_text(text)
    group = blocks("toml")[0].replace("[project.entry-points.", "[").replace('"', "")
    for name, entries in (("a_broken", "[millrace.sources]\nbroken = nowhere.to.be.found:of\n"), ("queue", group)):
        metadata = site / f"{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(entries)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        yield
    for name in MODULES:
        sys.modules.pop(name, None)


def counted(backlog: int, read: int) -> Position:
    return Position(backlog, 9, read, ArrivalBasis.COUNTED, {"orders/a": backlog})


def test_installed_source_is_counted_after_a_batch_and_at_rest() -> None:
    assert Positions().of([BATCH]) == counted(5, 3)
    assert Positions().at_rest([BATCH]) == counted(5, 0)


def test_rows_of_an_installed_source_are_unknown_while_a_shard_does_not_report() -> None:
    assert Positions().of([{**BATCH, "endOffset": {"a": 4, "b": 1}}]) == UNKNOWN


def test_test_on_the_page_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("page_tests").test_messages_after_the_batch_wait(monkeypatch)


def test_package_that_cannot_be_imported_is_reported_and_leaves_other_sources_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert Positions(limits={"Elsewhere[1]": 4.0}).of([OTHER]) == Position(basis=ArrivalBasis.TAKEN)
    assert "Elsewhere[1] is unknown: No module named 'nowhere'" in caplog.text


def test_page_shows_at_most_forty_lines() -> None:
    assert len(blocks("python")[0].splitlines()) <= 40
