"""Where tables are stored: in a folder, or under a prefix of a bucket."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from deltalake import DeltaTable

from millrace.lake.files import Files, files_below
from millrace.lake.object_stores import FORMS, ObjectStore, store_of
from millrace.model.errors import MillraceError

OPTIONS_VARIABLE = "MILLRACE_LAKE_OPTIONS"
"""Variable that names a file of options, if the lake does not use those of the environment."""
ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
"""Escapes that deltalake decodes in a folder's path: it opens ``a b`` for a table in ``a%20b``."""
READERS = 16
"""An object takes tens of milliseconds to arrive, and its reader waits."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Location:
    """A folder on this machine, or a prefix of a bucket.

    Attributes:
        uri: Absolute path, or a URI such as ``s3://bucket/prefix`` (:mod:`millrace.lake.object_stores`).
        options: Options of the bucket's clients; empty for a folder.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, where: str | Path | Location) -> Location:
        """Return the location that a path or URI names, with its options from the environment.

        Raises:
            MillraceError: If the URI has another scheme or form, or the file of options cannot be read.
        """
        if isinstance(where, Location):
            return where
        text = str(where)
        if store := store_of(text):
            options = options_of(os.environ, store)
            store.check(text, options)
            return cls(text.rstrip("/"), options)
        if "://" in text:
            raise MillraceError("MILLRACE_LAKE", text, FORMS, "Use one of these forms.")
        return cls(str(Path(text).absolute()))

    @cached_property
    def folder(self) -> Path | None:
        """The folder; None in a bucket."""
        return None if self.store else Path(self.uri)

    @cached_property
    def store(self) -> ObjectStore | None:
        """The kind of object store that contains it; None for a folder."""
        return store_of(self.uri)

    @cached_property
    def files(self) -> Files:
        """The files below the location."""
        return files_below(self.uri, self.options)

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.uri}/{name}", self.options)

    def __str__(self) -> str:
        return self.uri

    def exists(self, name: str) -> bool:
        """Return whether a file or folder exists.

        Raises:
            OSError: If that cannot be determined.
        """
        return self.files.exists(name)

    def read(self, name: str) -> bytes:
        """Return a file's content.

        Raises:
            FileNotFoundError: If it does not exist.
            OSError: If it cannot be read.
        """
        if self.folder is not None:  # one evaluation reads thousands: Arrow, or a Path, takes as long as the read
            with open(f"{self.uri}/{name}", "rb") as file:  # noqa: PTH123
                return file.read()
        return self.files.read(name)

    def table(self, version: int | None = None) -> DeltaTable:
        """Open the Delta table at this location.

        Args:
            version: Version to open; None for the newest.

        Raises:
            OSError: If it cannot be read.
            DeltaError: If it is not a table.
        """
        return DeltaTable(self.uri, version=version, storage_options=self.storage_options)

    def each(self, read: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the result of reading each item, in order; in a bucket, several are read ahead at a time.

        Args:
            read: Reads an item; in a bucket, several threads call it.
            items: Items to read.
        """
        if self.folder is not None:
            yield from map(read, items)
            return
        rest = iter(items)
        with ThreadPoolExecutor(READERS) as readers:
            while some := list(islice(rest, READERS)):
                yield from readers.map(read, some)

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The options in the form that deltalake takes."""
        return (self.store.storage_options(self.options) if self.store else {}) or None


def options_of(environment: Mapping[str, str], store: ObjectStore) -> dict[str, str]:
    """Return the options of an object store: from a file if one is named, else from the environment.

    Args:
        environment: Variables.
        store: The store.

    Raises:
        MillraceError: If the file cannot be read, is open to others, or contains other options.
    """
    named = environment.get(OPTIONS_VARIABLE)
    if not named:
        return environment_of(environment, store)
    keys = store.options
    allowed = f"the absolute path of a JSON file that only its owner can read, with keys {', '.join(keys)}"
    if not Path(named).is_absolute():
        raise MillraceError(OPTIONS_VARIABLE, named, allowed, "Use an absolute path.")
    try:
        if Path(named).stat().st_mode & 0o077:
            raise MillraceError(OPTIONS_VARIABLE, named, allowed, f"Run: chmod 600 {named}")
        options: Any = json.loads(Path(named).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise MillraceError(OPTIONS_VARIABLE, named, allowed, f"Fix the file ({type(error).__name__}).") from None
    if not isinstance(options, dict) or not all(k in keys and isinstance(v, str) for k, v in options.items()):
        raise MillraceError(OPTIONS_VARIABLE, named, allowed, "Remove other keys, and write values as text.")
    return options


def environment_of(environment: Mapping[str, str], store: ObjectStore) -> dict[str, str]:
    """Return the options of an object store from the environment alone."""
    return {key: environment[key] for key in store.options if environment.get(key)}
