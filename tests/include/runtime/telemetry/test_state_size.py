"""The data that an executor would load for a state partition, from the checkpoint's files."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from millrace.runtime.telemetry.state_size import LocalStorage, StateSizes, listed, named_bytes, to_load


@pytest.mark.parametrize(
    ("files", "snapshot", "size"),
    [
        ({}, None, 0),
        ({"1.delta": 1, "2.delta": 2, ".1.delta.crc": 100}, None, 3),
        ({"1.delta": 1, "2.delta": 2, "2.snapshot": 30, "3.delta": 4, "10.delta": 8}, "2.snapshot", 42),
        ({"9.snapshot": 50, "10.snapshot": 60, "10.delta": 1}, "10.snapshot", 60),
        ({"4.delta": 1, "3.snapshot": 9, "_metadata": 7, "temp.4.delta": 7}, "3.snapshot", 10),
        ({"3.zip": 100, "4.zip": 200}, "4.zip", 200),
        ({"3.zip": 100, "3.changelog": 7, "4.changelog": 8, "5.changelog": 9}, "3.zip", 117),
        ({"1.changelog": 7, "2.changelog": 8}, None, 15),
        ({"3_aa-01.zip": 100, "3_aa-01.zip.crc": 5, "4_bb-02.changelog": 8}, "3_aa-01.zip", 108),
        ({"3_aa.zip": 90, "3_bb.zip": 100, "4_cc.changelog": 8, "4_dd.changelog": 6}, "3_bb.zip", 108),
    ],
)
def test_state_to_load_is_the_newest_snapshot_and_later_changes(
    files: dict[str, int], snapshot: str | None, size: int
) -> None:
    assert to_load(files) == (snapshot, size)


def archive(*sizes: int) -> bytes:
    files = [{"localFileName": f"{n}.sst", "dfsSstFileName": f"{n}-a.sst", "sizeBytes": s} for n, s in enumerate(sizes)]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as written:
        written.writestr("metadata", f"v1\n{json.dumps({'sstFiles': files, 'numKeys': 4})}")
        written.writestr("CURRENT", "MANIFEST-1")
    return content.getvalue()


def test_rocksdb_snapshot_is_as_large_as_the_files_it_names() -> None:
    assert named_bytes(archive(100, 20)) == 120
    assert named_bytes(archive()) == 0


def test_state_of_a_partition_is_the_sum_of_its_stores(tmp_path: Path) -> None:
    partition = tmp_path / "2" / "5"
    for store in ("left", "right"):
        (partition / store).mkdir(parents=True)
        (partition / store / "1.delta").write_bytes(bytes(10))
    (partition / "SSTs").mkdir()
    (partition / "SSTs" / "0-a.sst").write_bytes(bytes(5000))
    (partition / "7.zip").write_bytes(archive(1000))
    size = (partition / "7.zip").stat().st_size
    for address in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
        assert StateSizes(address, LocalStorage()).loaded(2, 5) == 20 + size + 1000


def test_newer_rocksdb_snapshot_is_measured_again(tmp_path: Path) -> None:
    (tmp_path / "0" / "0").mkdir(parents=True)
    sizes, folder = StateSizes(str(tmp_path), LocalStorage()), tmp_path / "0" / "0"
    (folder / "1.zip").write_bytes(archive(1000))
    before = sizes.loaded(0, 0)
    (folder / "2.zip").write_bytes(archive(1000, 500))
    assert sizes.loaded(0, 0) == sizes.loaded(0, 0) == (folder / "2.zip").stat().st_size + 1500 > before


def test_folder_in_hadoops_listing_has_its_files_and_folders() -> None:
    file = "length=12; replication=1; blocksize=33554432; modification_time=1; owner=; group=; permission=rw-rw-rw-"
    text = (
        f"DeprecatedRawLocalFileStatus{{path=file:/a b/1.delta; isDirectory=false; {file}; isSymlink=false}}\n"
        "S3AFileStatus{path=s3a://b/state/0/SSTs; isDirectory=true; modification_time=0; isSymlink=false}"
    )
    found = listed(text)
    assert (found.files, found.folders) == ({"1.delta": 12}, ("SSTs",))
    assert listed("").files == {}
