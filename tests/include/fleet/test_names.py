"""Checkpoint folders of streams are safe, and different for different names."""

from __future__ import annotations

from pathlib import PurePosixPath

from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace.fleet.names import LONGEST, folder_of

NAMES = st.text() | st.text(alphabet="aA~._/-0é \x00", max_size=12) | st.text(alphabet="a.", min_size=190, max_size=420)


@settings(max_examples=200, deadline=None)
@given(NAMES)
@example("..")
@example("../../etc/passwd")
@example("a" * 198 + "../b")
@example("\ud800")
def test_folder_is_safe(name: str) -> None:
    folder = folder_of(name)
    assert folder == folder.lower() and folder.isascii() and not folder.startswith("/")
    for part in folder.split("/"):
        assert 0 < len(part) <= LONGEST and not part.startswith((".", "_")), folder


@settings(max_examples=200, deadline=None)
@given(NAMES, NAMES)
@example("Orders", "orders")
@example("\u00e9", "e\u0301")
@example("a" * 300, "a" * 199)
@example("a~2fb", "a/b")
def test_no_streams_folder_is_or_contains_another_streams(one: str, other: str) -> None:
    a, b = (PurePosixPath(folder_of(name)) for name in (one, other))
    assert one == other or (a != b and a not in b.parents and b not in a.parents)


def test_ordinary_names_stay_readable() -> None:
    assert folder_of("cdc.shop_orders-eu") == "cdc.shop_orders-eu"
    assert folder_of("eu/Orders 1") == "eu~2f~4frders~201"
