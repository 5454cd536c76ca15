"""A small file is replaced as a whole, with the requested permissions, or stays as it was."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.atomic_file import write_atomically
from millrace.model.errors import MillraceError


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.parametrize(("mode", "permissions"), [(0o600, 0o600), (0o644, 0o644), (None, 0o640)])
def test_file_has_the_requested_permissions(tmp_path: Path, mode: int | None, permissions: int) -> None:
    file = tmp_path / "new" / "file"
    write_atomically(file, "old")
    write_atomically(file, "ü", mode, sync_folder=True)
    assert file.read_bytes() == "ü".encode()
    assert stat.S_IMODE(file.stat().st_mode) == permissions
    assert list(file.parent.iterdir()) == [file]


def test_file_when_the_write_fails_then_stays_and_leaves_no_scratch_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError("no space left on device")

    write_atomically(tmp_path / "file", b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MillraceError, match="no space left") as error:
        write_atomically(tmp_path / "file", b"new", key="run folder")
    assert (error.value.key, error.value.value) == ("run folder", str(tmp_path))
    assert [(f.name, f.read_bytes()) for f in tmp_path.iterdir()] == [("file", b"old")]
