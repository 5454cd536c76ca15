from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import PathDistribution
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.model.errors import MillraceError
from millrace.optimizers.registry import GROUP, all_of, create, names, problems
from millrace.places import REPO, SOURCES


def test_create_when_name_is_known_then_gives_its_optimizer() -> None:
    assert names() == ("conttune", "dhalion", "dragster", "ds2", "flow", "random")
    for name in names():
        assert hasattr(create(name, {}), "propose")


def test_create_when_name_is_unknown_then_says_which_are_known() -> None:
    with pytest.raises(MillraceError, match=r"tuner\.name: got 'contune'; allowed: .*conttune") as told:
        create("contune", {})
    assert told.value.remedy


def test_create_when_an_option_is_unknown_then_says_so() -> None:
    with pytest.raises(MillraceError, match=r"tuner\.options\.alfa: got 3; allowed: .*alpha"):
        create("conttune", {"alfa": 3})


def wanted(join: dict[str, Any] | None, **owners: str) -> Any:
    return SimpleNamespace(
        name="p",
        tuner_options=("flow", {}),
        placement_options=None,
        admission_options=None,
        join_options=join,
        partitioning_options=None,
        memory_options=None,
        owners=owners,
    )


def test_all_of_a_spec_with_a_join_includes_its_optimizer() -> None:
    assert set(all_of(wanted({"capacity": 100, "window_s": 60.0}))) == {"flow", "esj", "batch_limits"}
    assert set(all_of(wanted(None))) == {"flow", "batch_limits"}


def test_problems_name_the_pipeline_and_thresholds_out_of_order() -> None:
    wrong = {"capacity": 100, "window_s": 60.0, "options": {"tau1": 0.9}}
    (found,) = problems([wanted(wrong), wanted(None)])
    assert found.key == "p: join.options.tau0..tau3"


def test_field_belongs_to_an_optimizer_of_the_pipeline_or_to_a_person() -> None:
    assert set(all_of(wanted(None, slots="flow", memory_mb="person"))) == {"flow", "batch_limits"}
    (found,) = problems([wanted(None, slots="esj")])
    assert (found.key, found.value, found.allowed) == ("p: owners.slots", "esj", "batch_limits, flow, person")
    assert "by hand" in found.remedy


def test_create_loads_no_heavy_library() -> None:
    code = (
        "import sys; from millrace.optimizers.registry import registered; needed = {'drfm': 1.0, 'esj': 2}; "
        "[r.make({'capacity': needed[r.name]} if r.name in needed else {}) for r in registered()]; "
        "print(*(m for m in ('skopt', 'sklearn', 'pandas', 'mlflow', 'ortools') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_checkout_registers_the_same_rivals_as_the_installed_package() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    (beside,) = SOURCES.glob("millrace_rivals-*.dist-info")
    found = PathDistribution(beside)
    named = {entry.name: entry.value for entry in found.entry_points if entry.group == GROUP}
    assert (named, found.version) == (project["entry-points"][GROUP], project["version"])
