"""The record of a change of state partitions is read whole, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from millrace.model.errors import MillraceError
from millrace.run_folder import rescale_record
from millrace.run_folder.rescale_record import Rescale

CHANGE = Rescale(2, 1, 3, 7, 4, (), datetime(2013, 1, 1, tzinfo=UTC))


def test_record_is_read_as_written_and_none_before_the_first(tmp_path: Path) -> None:
    assert rescale_record.read(tmp_path) is None
    rescale_record.write(tmp_path, CHANGE)
    assert rescale_record.read(tmp_path) == CHANGE


@pytest.mark.parametrize("content", ["", "{", "[]", '{"phase": "changed"}'])
def test_damaged_record_is_named_with_a_remedy(tmp_path: Path, content: str) -> None:
    (tmp_path / rescale_record.FILE).write_text(content)
    with pytest.raises(MillraceError, match=r"rescale\.json: got .* Delete it if no folder \*\.before-rescale"):
        rescale_record.read(tmp_path)
