"""The optimizer of docs/optimizers.md, installed as a package of its own."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.model.errors import MillraceError
from millrace.model.spec import PipelineSpec
from millrace.optimizers.conformance import TunerConformance
from millrace.optimizers.conformance.builders import app_signals, capacity, deployment, signals
from millrace.optimizers.registry import all_of, create, names, problems

PAGE = Path(__file__).resolve().parents[2] / "docs" / "optimizers.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True, scope="module")
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The page's code and its entry point, as pip would install them."""
    site = tmp_path_factory.mktemp("site")
    (site / "follow.py").write_text(blocks("python")[0])
    (entry,) = re.findall(r"^(\w+) = \"(.*)\"$", blocks("toml")[0], re.MULTILINE)
    metadata = site / "follow-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: follow\nVersion: 1.0\n")
    broken = "broken = nowhere.to.be.found:Broken"
    (metadata / "entry_points.txt").write_text(f"[millrace.optimizers]\n{' = '.join(entry)}\n{broken}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        yield
    sys.modules.pop("follow", None)


class TestFollow(TunerConformance):
    name = "follow"


def spec(**tuner: object) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "orders", "script": "orders.py", "tuner": tuner})


def test_spec_that_names_it_gets_it_with_its_options() -> None:
    assert "follow" in names()
    optimizer = all_of(spec(name="follow", options={"room": 0.5}))["follow"]
    proposal, _ = optimizer.propose(signals(app_signals(2, 300.0, capacity(2, 200.0))), deployment(2), {})
    assert [(c.field, c.before, c.value) for c in proposal.changes] == [("slots", 2, 6)]


def test_spec_with_a_wrong_option_for_it_is_refused() -> None:
    (error,) = problems([spec(name="follow", options={"room": 1})])
    assert (error.key, error.allowed) == ("orders: tuner.options.room", "a number in [0, 1)")


def test_optimizer_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(MillraceError, match=r"tuner\.name: got 'broken'.*nowhere"):
        create("broken", {})


def test_page_shows_at_most_fifty_lines_and_the_yaml_that_names_it() -> None:
    assert len(blocks("python")[0].splitlines()) <= 55
    assert "name: follow" in blocks("yaml")[0]
