"""Single files below a location: entries of logs, data files, notes. Tables are opened by deltalake.

Arrow's client reads folders and S3, and obstore the other buckets: it finds keys as deltalake does. deltalake's own
file system would stop all of a driver's threads while it waits for an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Protocol

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, SubTreeFileSystem

from millrace.lake.object_stores import ACCOUNT, GOOGLE, OF_ARROW, RETRIES, S3, TIMEOUT_S, store_of


@dataclass(frozen=True)
class Entry:
    """A file or folder.

    Attributes:
        name: Its name in its folder.
        size: Bytes; 0 for a folder.
        changed: When a file was written; None for a folder.
    """

    name: str
    size: int = 0
    changed: datetime | None = None


class Files(Protocol):
    """Reads and writes files by their names below a location; an ``OSError`` says what went wrong."""

    def exists(self, name: str) -> bool:
        """Return whether a file or folder exists."""

    def entry(self, name: str) -> Entry:
        """Return a file's entry; a ``FileNotFoundError`` if it does not exist."""

    def read(self, name: str) -> bytes:
        """Return a file's content; a ``FileNotFoundError`` if it does not exist."""

    def open(self, name: str) -> pa.NativeFile:
        """Return a file to read parts of; a ``FileNotFoundError`` if it does not exist."""

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file."""

    def delete(self, name: str) -> None:
        """Delete a file."""

    def list(self, *, recursive: bool = False) -> Iterator[Entry]:
        """Yield what is below the location: files and folders, or only files if folders are searched too."""


class ArrowFiles:
    """Files of one of Arrow's file systems.

    Args:
        system: The file system below the location.
    """

    def __init__(self, system: FileSystem) -> None:
        self._system = system

    def exists(self, name: str) -> bool:
        """Return whether a file or folder exists."""
        return self._system.get_file_info(name).type is not FileType.NotFound

    def entry(self, name: str) -> Entry:
        """Return a file's entry."""
        info = self._system.get_file_info(name)
        if info.type is FileType.NotFound:
            raise FileNotFoundError(name)
        return _entry(info)

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        with self._system.open_input_stream(name) as stream:
            return bytes(stream.read())

    def open(self, name: str) -> pa.NativeFile:
        """Return a file to read parts of."""
        return self._system.open_input_file(name)

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file."""
        with self._system.open_output_stream(name) as stream:
            stream.write(content)

    def delete(self, name: str) -> None:
        """Delete a file."""
        self._system.delete_file(name)

    def list(self, *, recursive: bool = False) -> Iterator[Entry]:
        """Yield what is below the location."""
        try:
            found = self._system.get_file_info(FileSelector("", allow_not_found=True, recursive=recursive))
        except FileNotFoundError:  # Arrow looks twice, and the folder was created in between
            return
        yield from (_entry(info) for info in found if not recursive or info.type is FileType.File)


def _entry(info: Any) -> Entry:
    return Entry(str(info.base_name), int(info.size or 0), info.mtime)


class StoredFiles:
    """Files of an object store, through obstore, which takes the same options as deltalake.

    Args:
        make: Makes obstore's store of the location.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        import obstore  # not needed by a lake in a folder or on S3

        retries = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRIES * TIMEOUT_S)}
        client = {"connect_timeout": timedelta(seconds=TIMEOUT_S), "allow_http": True}
        self._obstore: Any = obstore
        with _as_os_errors():
            self._store = make(client_options=client, retry_config=retries)

    def exists(self, name: str) -> bool:
        """Return whether a file or folder exists; a name with a suffix is no folder."""
        try:
            self.entry(name)
        except FileNotFoundError:
            if "." in name:
                return False
            with _as_os_errors():
                found = self._obstore.list_with_delimiter(self._store, name)
            return bool(found["objects"] or found["common_prefixes"])
        return True

    def entry(self, name: str) -> Entry:
        """Return a file's entry."""
        with _as_os_errors():
            return _stored(self._obstore.head(self._store, name))

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        with _as_os_errors():
            return bytes(self._obstore.get(self._store, name).bytes())

    def open(self, name: str) -> pa.NativeFile:
        """Return a file to read parts of; it is fetched as a whole."""
        return pa.BufferReader(self.read(name))

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file."""
        with _as_os_errors():
            self._obstore.put(self._store, name, content)

    def delete(self, name: str) -> None:
        """Delete a file."""
        with _as_os_errors():
            self._obstore.delete(self._store, name)

    def list(self, *, recursive: bool = False) -> Iterator[Entry]:
        """Yield what is below the location."""
        with _as_os_errors():
            if recursive:
                for chunk in self._obstore.list(self._store):
                    yield from map(_stored, chunk)
                return
            found = self._obstore.list_with_delimiter(self._store)
        yield from (Entry(str(prefix).rstrip("/").rpartition("/")[2]) for prefix in found["common_prefixes"])
        yield from map(_stored, found["objects"])


def _stored(meta: Mapping[str, Any]) -> Entry:
    return Entry(str(meta["path"]).rpartition("/")[2], int(meta["size"]), meta["last_modified"])


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Raise what obstore raises as the errors that files raise, without its lines for developers."""
    from obstore.exceptions import BaseError

    try:
        yield
    except BaseError as error:
        raise OSError(str(error).partition("\n\nDebug source")[0]) from error


def files_below(uri: str, options: Mapping[str, str]) -> Files:
    """Return the files below a folder or a prefix of a bucket.

    Args:
        uri: Absolute path, or the URI of an object store.
        options: Options of the bucket's client; empty for a folder.
    """
    store = store_of(uri)
    if store is None:
        return ArrowFiles(SubTreeFileSystem(uri, LocalFileSystem()))
    scheme, _, rest = uri.partition("://")
    bucket, _, prefix = rest.partition("/")
    if store is S3:
        return ArrowFiles(SubTreeFileSystem(rest, _s3(tuple(sorted(options.items())))))
    from obstore.store import AzureStore, GCSStore

    config: Any = dict(options)
    if store is GOOGLE:
        return StoredFiles(partial(GCSStore, bucket, prefix=prefix, config=config))
    container, _, host = bucket.partition("@")
    if scheme == "abfss":
        config = {**config, ACCOUNT: host.partition(".")[0]}
    return StoredFiles(partial(AzureStore, container, prefix=prefix, config=config))


@lru_cache(maxsize=8)
def _s3(options: tuple[tuple[str, str], ...]) -> FileSystem:
    from pyarrow.fs import S3FileSystem  # loads AWS's client, which a lake in a folder does not need

    named = {OF_ARROW[key]: value for key, value in options}
    return S3FileSystem(**named, request_timeout=TIMEOUT_S, connect_timeout=TIMEOUT_S)
