"""Old names of the published packages warn and are the same objects."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.mark.parametrize("package", ["panes", "partitioning"])
def test_old_name_warns_and_has_everything_that_was_published(package: str) -> None:
    present = importlib.import_module(f"millrace.windows.{package}")
    sys.modules.pop(f"include.streaming.{package}", None)
    with pytest.warns(DeprecationWarning, match=f"millrace.windows.{package}"):
        former = importlib.import_module(f"include.streaming.{package}")
    assert all(getattr(former, name) is getattr(present, name) for name in present.__all__)
