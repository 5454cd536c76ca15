"""Read hand-written YAML files: YAML 1.2, one document, unique keys. Anything else is an error with its line.

YAML 1.2 reads ``on``, ``yes`` and ``22:00`` as text. Dates are read as text too, because no key of a spec is a date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from millrace.model.errors import MillraceError

PREFIX = "tag:yaml.org,2002:"
KNOWN_TAGS = frozenset(PREFIX + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "merge"))
TEXT_TAGS = frozenset(PREFIX + name for name in ("timestamp", "value"))
"""Tags that other versions of YAML give to plain text: dates, and a single ``=``."""
MOST_VALUES = 100_000
"""Maximum number of values. Nested aliases can make a short file expand to billions of values."""
ALLOWED = "a readable YAML file"


def read_file(path: Path) -> Any:
    """Read a YAML file in UTF-8, with or without a byte order mark.

    Raises:
        MillraceError: If the file cannot be read, or for the reasons given in :func:`parse`.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise MillraceError(path.name, reason, ALLOWED, "Create the file or correct the path.") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise MillraceError(path.name, f"line {line}: not UTF-8", ALLOWED, "Save the file as UTF-8.") from None
    return parse(text, path.name)


def parse(text: str, name: str) -> Any:
    """Read a YAML text.

    Args:
        text: The text.
        name: Name to use in errors, such as the file name.

    Returns:
        Mappings, lists, text, numbers, booleans and None.

    Raises:
        MillraceError: If it is not YAML, repeats a key, has several documents, or uses a tag that a spec does not need.
    """
    reader = YAML(typ="safe", pure=True)
    try:
        root = reader.compose(text)
        if root is None:
            return None
        _Check(name).size(root)
        return reader.constructor.construct_document(root)
    except (YAMLError, ValueError, LookupError) as error:
        raise _explained(error, text, name) from None
    except RecursionError:
        raise MillraceError(name, "values nested too deeply", ALLOWED, "Nest fewer values.") from None


class _Check:
    """Reject YAML that no spec needs, and turn dates into text."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sizes: dict[int, int] = {}
        """Values below each checked node, with aliases expanded."""
        self.open: set[int] = set()

    def size(self, node: Node) -> int:
        if id(node) in self.open:
            raise self.problem(node, "an alias of a value that contains it", "Write the value instead of the alias.")
        if id(node) not in self.sizes:
            self.open.add(id(node))
            self.sizes[id(node)] = 1 + self._below(node)
            self.open.remove(id(node))
        if self.sizes[id(node)] > MOST_VALUES:
            raise self.problem(node, f"more than {MOST_VALUES:,} values", "Use fewer aliases.")
        return self.sizes[id(node)]

    def _below(self, node: Node) -> int:
        if node.tag in TEXT_TAGS:
            node.tag = f"{PREFIX}str"
        if node.tag not in KNOWN_TAGS:
            shown = str(node.tag).replace(PREFIX, "!!")
            raise self.problem(node, f"the tag {shown}", "Remove the tag. Write text that begins with `!` in quotes.")
        if isinstance(node, MappingNode):
            self._keys(node)
            return sum(self.size(part) for pair in node.value for part in pair)
        return sum(map(self.size, node.value)) if isinstance(node, SequenceNode) else 0

    def _keys(self, node: MappingNode) -> None:
        first: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, ScalarNode):
                raise self.problem(key, "a key that is not text", "Write keys as text, and text with braces in quotes.")
            line, here = first.get((str(key.tag), key.value)), _line(key)
            if line is not None:
                both = f"line {line}" if line == here else f"lines {line} and {here}"
                remedy = f"Keep one `{key.value}` with everything that belongs to it."
                raise MillraceError(self.name, f"{both}: `{key.value}` twice", "each key once", remedy)
            first[str(key.tag), key.value] = here

    def problem(self, node: Node, what: str, remedy: str) -> MillraceError:
        return MillraceError(self.name, f"line {_line(node)}: {what}", ALLOWED, remedy)


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _explained(error: Exception, text: str, name: str) -> MillraceError:
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        what, remedy = f"line {line}: the character {chr(error.character)!r}", "Remove this character."
        return MillraceError(name, what, ALLOWED, remedy)
    if not isinstance(error, MarkedYAMLError):
        return MillraceError(name, " ".join(str(error).split())[:200], ALLOWED, "Fix the value.")
    mark = error.problem_mark or error.context_mark
    line = 1 if mark is None else int(mark.line) + 1
    problem = str(error.problem or error.context)
    if "another document" in problem:
        what = f"line {line}: a second document"
        return MillraceError(name, what, "one document", "Remove `---`, or make a file of each document.")
    if "'\\t'" in problem:
        return MillraceError(name, f"line {line}: a tab", ALLOWED, "Use spaces instead of the tab.")
    remedy = (
        f"Fix line {line} or the one before. Text that has `: ` or ` #` in it, or begins with a symbol, needs quotes."
    )
    return MillraceError(name, f"line {line}: {problem}"[:200], ALLOWED, remedy)
