"""Which streams a fleet has: folders, topics, a list, or a file with a list."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from millrace.model.errors import MillraceError
from millrace.pipelines.spec_yaml import read_file

KINDS = ("folders", "topics", "list", "file")
WILD = re.compile(r"[*?[]")
HIDDEN = ("_", ".")
LOG = "_delta_log"


@dataclass(frozen=True)
class Found:
    """The streams of a fleet.

    Attributes:
        streams: Their names, each once, in alphabetical order.
        problems: One sentence for each thing that looks like a stream but is none.
    """

    streams: tuple[str, ...]
    problems: tuple[str, ...] = ()


def discover(source: Mapping[str, Any], base: Path, list_topics: Callable[[], Iterable[str]] | None = None) -> Found:
    """Return the streams that the spec's ``fleet.streams`` describes now.

    A name that is not UTF-8 is a problem, not a stream: nothing could store it.

    Args:
        source: One of ``{folders: PATTERN}``, ``{topics: REGEX}``, ``{list: NAMES}`` and ``{file: PATH}``. A folder's
            stream is named by its path below the part of the pattern that has no wildcard.
        base: Folder to which relative paths belong.
        list_topics: Returns the topics of the brokers; None if no brokers are known.

    Raises:
        MillraceError: If the description is wrong, or what it names cannot be read.
    """
    found = _found(source, base, list_topics)
    wrong = [name for name in found.streams if _printable(name) != name]
    unnamed = (f"Stream {name} is left out because its name is not UTF-8: rename it." for name in wrong)
    streams = tuple(name for name in found.streams if name not in wrong)
    return Found(streams, tuple(map(_printable, (*found.problems, *unnamed))))


def may_return(source: Mapping[str, Any], stream: str) -> bool:
    """Return whether a stream that does not exist now is one that ``fleet.streams`` describes.

    Args:
        source: As for :func:`discover`, which accepts it.
        stream: Its name.
    """
    ((kind, value),) = source.items()
    if kind == "topics":
        return re.fullmatch(value, stream) is not None
    if kind == "folders":
        (_, pattern), names = _at_wildcard(Path(value)), Path(stream).parts
        return "**" in pattern or (len(names) == len(pattern) and all(map(fnmatchcase, names, pattern)))
    return False


def _printable(text: str) -> str:
    """Return a text with the bytes that are not UTF-8, which Python reads as lone surrogates, written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _found(source: Mapping[str, Any], base: Path, list_topics: Callable[[], Iterable[str]] | None) -> Found:
    if len(source) != 1 or (kind := next(iter(source))) not in KINDS:
        allowed = "exactly one of " + ", ".join(KINDS)
        raise MillraceError("fleet.streams", ", ".join(map(str, source)) or "nothing", allowed, "Keep one of them.")
    value = source[kind]
    if kind == "list":
        return _listed(value, "fleet.streams.list")
    if not isinstance(value, str) or not value:
        raise MillraceError(f"fleet.streams.{kind}", value, "text", "Write one pattern or path.")
    if kind == "file":
        return _listed(read_file(base / value), value)
    return _topics(value, list_topics) if kind == "topics" else _folders(value, base)


def _listed(names: Any, key: str) -> Found:
    is_list = isinstance(names, list | tuple)
    wrong = [name for name in names if not isinstance(name, str) or not name] if is_list else [names]
    if wrong:
        raise MillraceError(key, wrong[0], "a list of names as text", "Put numbers and dates in quotes.")
    twice = sorted({name for name in names if names.count(name) > 1})
    return Found(tuple(sorted(set(names))), tuple(f"Stream {name} is listed more than once." for name in twice))


def _topics(pattern: str, list_topics: Callable[[], Iterable[str]] | None) -> Found:
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise MillraceError("fleet.streams.topics", pattern, "a regular expression", f"Fix it ({error}).") from None
    if list_topics is None:
        remedy = "Name the brokers, or list the topics in fleet.streams.list."
        raise MillraceError("fleet.streams.topics", pattern, "topics of known Kafka brokers", remedy)
    found = tuple(sorted({topic for topic in list_topics() if wanted.fullmatch(topic)}))
    return Found(found, () if found else (f"No topic matches {pattern}.",))


def _folders(pattern: str, base: Path) -> Found:
    if "://" in pattern:
        remedy = "List the streams in fleet.streams.list or fleet.streams.file."
        raise MillraceError("fleet.streams.folders", pattern, "folders on this machine", remedy)
    root, wild = _at_wildcard(base / pattern)
    streams, problems = [], []
    for folder in sorted(root.glob(str(Path(*wild)))):
        name = folder.relative_to(root).as_posix()
        if name.startswith(".") or "/." in name:
            continue
        try:
            if not folder.is_dir():
                continue
            if _has_data(folder):
                streams.append(name)
            else:
                problems.append(f"{folder} is no stream yet: it is no Delta table and contains no data files.")
        except OSError as error:
            problems.append(f"{folder} cannot be read: {error.strerror or error}.")
    return Found(tuple(sorted(streams)), tuple(problems) or (() if streams else (f"No folder matches {pattern}.",)))


def _at_wildcard(pattern: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the part of a pattern that has no wildcard, and the names in the rest of it, at least one."""
    parts = pattern.parts
    fixed = next((n for n, part in enumerate(parts) if WILD.search(part)), len(parts) - 1)
    return Path(*parts[:fixed]), parts[fixed:]


def _has_data(folder: Path) -> bool:
    """Return whether a folder is a Delta table or has a data file, perhaps in folders of partitions (``key=value``)."""
    if (folder / LOG).is_dir():
        return any(entry.suffix in (".json", ".parquet") for entry in (folder / LOG).iterdir())
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(HIDDEN):
                continue
            if entry.is_file() or ("=" in entry.name and entry.is_dir() and _has_data(Path(entry.path))):
                return True
    return False
