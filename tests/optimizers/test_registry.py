from __future__ import annotations

import subprocess
import sys

import pytest

from include.contracts.errors import MillraceError
from optimizers.registry import create, names


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


def test_create_when_called_then_loads_no_heavy_library() -> None:
    code = (
        "import sys; from optimizers.registry import admission, create, join, names, placement; "
        "[create(name, {}) for name in names()]; placement({}); admission({'capacity': 1.0}); join({'capacity': 2}); "
        "print(*(m for m in ('skopt', 'sklearn', 'pandas', 'mlflow', 'ortools') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
