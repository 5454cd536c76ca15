"""Bytes that an executor would load from the checkpoint if a state partition moved to it.

A partition's folder keeps many versions of its state, in case tasks fail. An executor loads the newest snapshot and the
changes after it. RocksDB's snapshot is an archive that lists its files, which several snapshots share.
"""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

FILE = re.compile(r"^(\d+)(?:_[^.]+)?\.(snapshot|zip|delta|changelog)$")
"""A version of the state; some checkpoints add an id to its number."""
SNAPSHOTS = frozenset({"snapshot", "zip"})
ARCHIVE = ".zip"
METADATA = "metadata"
"""The archive's list of files: a line with its format, then JSON."""
SHARED = frozenset({"SSTs", "logs"})
"""Folders of the files that archives list; every other folder is a store of its own."""
STATUS = re.compile(r"path=([^;]+); isDirectory=(true|false)(?:; length=(\d+))?")
"""A file as Hadoop describes it."""


@dataclass(frozen=True)
class Content:
    """Content of a folder: the sizes of its files, bytes, and the names of its subfolders."""

    files: Mapping[str, int]
    folders: tuple[str, ...]


class Storage(Protocol):
    """Where a checkpoint is stored."""

    def content(self, folder: str) -> Content:
        """Return the content of a folder."""

    def read(self, file: str) -> bytes:
        """Return the content of a file."""


class LocalStorage:
    """Folders of this machine, named by paths or ``file:`` addresses."""

    def content(self, folder: str) -> Content:
        """Return the content of a folder.

        Raises:
            OSError: If it cannot be read.
        """
        files, folders = {}, []
        with os.scandir(_path(folder)) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.name)
                else:
                    with suppress(FileNotFoundError):  # Spark has just deleted it
                        files[entry.name] = entry.stat().st_size
        return Content(files, tuple(folders))

    def read(self, file: str) -> bytes:
        """Return the content of a file.

        Raises:
            OSError: If it cannot be read.
        """
        return Path(_path(file)).read_bytes()


class HadoopStorage:
    """Folders on any of Hadoop's file systems, each in one or two calls to the JVM.

    Args:
        spark_context: The driver's SparkContext.
    """

    def __init__(self, spark_context: Any) -> None:
        self._jvm = spark_context._jvm
        self._conf = spark_context._jsc.hadoopConfiguration()

    def content(self, folder: str) -> Content:
        """Return the content of a folder.

        Raises:
            Py4JJavaError: If it cannot be read.
        """
        path = self._jvm.org.apache.hadoop.fs.Path(folder)
        statuses = path.getFileSystem(self._conf).listStatus(path)
        # one text for all of them: separate queries would take several calls per file
        return listed(str(self._jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(statuses).mkString("\n")))

    def read(self, file: str) -> bytes:
        """Return the content of a file.

        Raises:
            Py4JJavaError: If it cannot be read.
        """
        path = self._jvm.org.apache.hadoop.fs.Path(file)
        stream = path.getFileSystem(self._conf).open(path)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()


class StateSizes:
    """Measures state partitions of one query.

    Args:
        root: The checkpoint's ``state`` folder.
        storage: Reads the checkpoint.
    """

    def __init__(self, root: str, storage: Storage) -> None:
        self._root, self._storage = root, storage
        self._archived: dict[str, tuple[str, int]] = {}

    def loaded(self, operator: int, partition: int) -> int:
        """Return the bytes that an executor would load for one partition of an operator, including all its stores."""
        folder = f"{self._root}/{operator}/{partition}"
        content = self._storage.content(folder)
        stores = [name for name in content.folders if name not in SHARED and not name.startswith(("_", "."))]
        inner = (f"{folder}/{store}" for store in stores)
        return self._store_bytes(folder, content) + sum(self._store_bytes(s, self._storage.content(s)) for s in inner)

    def _store_bytes(self, folder: str, content: Content) -> int:
        snapshot, size = to_load(content.files)
        return size + (self._named_bytes(folder, snapshot) if snapshot and snapshot.endswith(ARCHIVE) else 0)

    def _named_bytes(self, folder: str, archive: str) -> int:
        """Return the bytes of the files that an archive lists; each archive is read once."""
        known = self._archived.get(folder)
        if known is None or known[0] != archive:
            known = self._archived[folder] = (archive, named_bytes(self._storage.read(f"{folder}/{archive}")))
        return known[1]


def to_load(files: Mapping[str, int]) -> tuple[str | None, int]:
    """Return the newest snapshot, None if there is none, and the bytes of it and the changes after it.

    Args:
        files: Sizes of a store's files by name, bytes. Files that are not versions of the state are ignored.
    """
    snapshots: dict[int, str] = {}
    changes: dict[int, int] = {}
    for name, size in files.items():
        match = FILE.match(name)
        if match is None:
            continue
        number = int(match[1])
        # a repeated attempt may have left a version twice: only one of them is loaded
        if match[2] in SNAPSHOTS:
            snapshots[number] = max(name, snapshots.get(number, name), key=lambda n: files[n])
        else:
            changes[number] = max(size, changes.get(number, 0))
    newest = max(snapshots, default=-1)
    later = sum(size for number, size in changes.items() if number > newest)
    return (None, later) if newest < 0 else (snapshots[newest], files[snapshots[newest]] + later)


def named_bytes(archive: bytes) -> int:
    """Return the bytes of the files that a RocksDB snapshot's archive lists."""
    with zipfile.ZipFile(io.BytesIO(archive)) as content:
        metadata = content.read(METADATA).decode().partition("\n")[2]
    files = json.loads(metadata)
    return sum(int(f["sizeBytes"]) for kind in ("sstFiles", "logFiles") for f in files.get(kind) or ())


def listed(text: str) -> Content:
    """Return a folder's content from Hadoop's ``FileStatus{path=...; isDirectory=...; length=...; ...}`` of each."""
    files: dict[str, int] = {}
    folders = []
    for path, is_folder, length in STATUS.findall(text):
        name = path.rsplit("/", 1)[-1]
        if is_folder == "true":
            folders.append(name)
        else:
            files[name] = int(length)
    return Content(files, tuple(folders))


def is_local(address: str) -> bool:
    """Return whether a folder is on this machine."""
    return address.startswith(("file:", "/"))


def _path(address: str) -> str:
    return "/" + address.removeprefix("file:").lstrip("/")
