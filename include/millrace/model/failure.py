"""Find why something failed, in one line: the error class and first sentence of the cause, from any exception's text.

The whole text belongs in a log. Spark, Delta and py4j wrap a cause several times and add stack traces, plans and
schemas, and Python's own tracebacks are inside Java's. A person needs the innermost cause.
"""

from __future__ import annotations

import re
import signal
from contextlib import suppress

LIMIT = 200
"""Longest reason, characters."""
OUR_LIMIT = 500
"""Longest reason of Millrace's own errors, which are written to be read whole."""
OURS = "MillraceError"
UNKNOWN = "no error is known"
CURED = (
    "DELTA_SCHEMA_CHANGED",
    "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS",
    "DELTA_STREAMING_METADATA_EVOLUTION",
    "DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART",
)
"""Prefixes of the error classes of queries that only need a restart: they then read the new schema."""

_NAME = r"[A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*)*"
_BEHIND = re.compile(r"=== Streaming Query ===|\n(?:JVM stacktrace:|Driver stacktrace:|== SQL|== DataFrame ==)")
"""Text from here on is no part of the cause."""
_TRACEBACK = "Traceback (most recent call last)"
_CHAINED = re.compile(r"\n\n(?:During handling of the above|The above exception was)")
_RAISED = re.compile(rf"{_NAME}(?::\s.*)?$")
"""How a traceback ends; exceptions may have any name."""
_FRAME = re.compile(r"\n\s+(?:at [\w.$/<>]+(?:\(|$)|\.\.\. \d+ more)", re.MULTILINE)
_CAUSED_BY = re.compile(r"^\s*Caused by: (?!\[CIRCULAR)", re.MULTILINE)
_STATE = re.compile(r"\s*SQLSTATE: \w{5}\b")
_PRINTED = re.compile(rf"({_NAME})(?:: (.*))?", re.DOTALL)
"""An exception as Python and Java print it."""
_TYPED = re.compile(rf"({_NAME}(?:Exception|Error|Failure))(?:: (.*)|\Z)", re.DOTALL)
"""The same, in the middle of a text: anything may come before a colon there."""
_CLASSED = re.compile(r"\[([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:\.[A-Z0-9_]+)*|[A-Z]{5,})\]\s*(.*)", re.DOTALL)
"""An error class in brackets, and its message."""
_WRAPPERS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"An error occurred while calling [^\n]*?\.?\n:?\s*",
        r": (?=[A-Za-z_])",
        r'Exception in thread "[^"]*" ',
        r"Caused by: ",
        r"\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: ",
        r"\[FOREACH_(?:BATCH|USER_FUNCTION)_ERROR\] [^\n]*?Reason:\s*(?!SQLSTATE)(?=\S)",
        r"\[FAILED_EXECUTE_UDF\].*?\bdue to: ",
        r"Job aborted due to stage failure: .*?\bexecutor \w+\): ",
        r"Job aborted due to stage failure: Task [^\n]*? failed \d+ times: (?=\S)",
        r"Job aborted due to stage failure: ",
        r"ExecutorLostFailure \([^)]*\) Reason: ",
    )
)
"""Text that is put around a cause."""
_EXIT_CODE = re.compile(r"\bexit(?:ed with)? code:? ?(\d+)", re.IGNORECASE)
_SENTENCE = re.compile(r"(.*?[.!?])(?=\s+[A-Z'\"`(\[]|\s*$)", re.DOTALL)
"""A sentence ends at a full stop before a capital letter, a quote or a bracket: "e.g. this" continues."""


def reason(error: BaseException) -> str:
    """Return why an exception was raised, in one line of at most :data:`LIMIT` characters.

    Errors that carry a class, such as Spark's and Delta's, are named by it in brackets; others by their type.
    """
    if isinstance(error, SystemExit):
        code = error.code
        ended = f"with exit code {_told_code(code)}" if isinstance(code, int) else f"by itself: {code}"
        return _line(f"the script ended {ended}", LIMIT)
    name = type(error).__name__
    text = str(error)
    if name == OURS:
        return _line(text, OUR_LIMIT)
    return _named(name, text)


def reason_of(text: str) -> str:
    """Return the same for an exception's text with its type, as a traceback, a log or Java prints it."""
    return _named("", text)


def in_sentence(reason: str | None) -> str:
    """Return a reason without its full stop, for the middle of a sentence, or a phrase if it is None."""
    return (reason or UNKNOWN).rstrip(". ")


def restart_cures(reason: str) -> bool:
    """Return whether a failure's reason only requires a restart of the query."""
    found = _CLASSED.match(reason)
    return found is not None and found[1].startswith(CURED)


def killed_by(code: int) -> str | None:
    """Return the name of the signal that an exit code stands for; None if there is none."""
    number = -code if code < 0 else code - 128
    with suppress(ValueError):
        return signal.Signals(number).name
    return None


def _named(name: str, text: str) -> str:
    name, text = _cause(name, text.strip())
    if name.endswith(OURS):
        return _line(text, OUR_LIMIT)
    if (classed := _CLASSED.match(text)) is not None:
        sentence = _first_sentence(classed[2])
        return _line(f"[{classed[1]}] {sentence}", LIMIT)
    sentence = _with_signal(_first_sentence(text))
    return _line(f"{name}: {sentence}" if name and sentence else name or sentence or UNKNOWN, LIMIT)


def _cause(name: str, text: str) -> tuple[str, str]:
    """Return the type of the innermost cause (empty if unnamed) and its message."""
    inner = _innermost(text)
    if (not name or inner != _before_frames(text)) and (printed := _PRINTED.fullmatch(inner)) is not None:
        name, inner = printed[1], printed[2] or ""
    while True:
        rest = _unwrapped(inner)
        typed = _TYPED.match(rest)
        if typed is not None and (rest != inner or not name or _wraps(typed[2] or "")):
            name, inner = typed[1], typed[2] or ""
        elif rest != inner:
            inner = rest
        else:
            return name, _STATE.sub("", inner).strip()


def _unwrapped(text: str) -> str:
    found = next((found for wrapper in _WRAPPERS if (found := wrapper.match(text)) is not None), None)
    return text if found is None else text[found.end() :]


def _wraps(text: str) -> bool:
    return _CLASSED.match(text) is not None or _unwrapped(text) != text


def _innermost(text: str) -> str:
    """Return the text of the last cause: of the last Python traceback, else of Java's last "Caused by"."""
    if (raised := _raised(text.rpartition(_TRACEBACK)[2])) is not None and _TRACEBACK in text:
        return raised
    causes = list(_CAUSED_BY.finditer(text))
    classed = [cause for cause in causes if _CLASSED.match(_untyped(text[cause.end() :]))]
    return _before_frames(text[(classed or causes)[-1].end() :] if causes else text)


def _untyped(text: str) -> str:
    typed = _TYPED.match(text)
    return text if typed is None else typed[2] or ""


def _before_frames(text: str) -> str:
    """Return the text before a stack trace or a plan."""
    return _FRAME.split(_BEHIND.split(text, maxsplit=1)[0], maxsplit=1)[0].strip()


def _raised(traceback: str) -> str | None:
    """Return the exception after a traceback's frames, with all the lines of its message."""
    lines = traceback.splitlines()[1:]
    at = (n for n, line in enumerate(lines) if line.strip() and not line[:1].isspace())
    first = next((n for n in at if _RAISED.match(lines[n])), None)
    if first is None:
        return None
    message = _CHAINED.split("\n".join(lines[first:]), maxsplit=1)[0]
    causes = list(_CAUSED_BY.finditer(message))
    return _before_frames(message[causes[-1].end() :] if causes else message)


def _first_sentence(text: str) -> str:
    """Return a text's first sentence, which ends at a colon if a list or a schema follows."""
    lines = []
    for line in text.strip().splitlines():
        if not line.strip():
            break
        lines.append(line.strip())
        if line.rstrip().endswith(":"):
            break
    paragraph = " ".join(lines)
    found = _SENTENCE.match(paragraph)
    return (found[1] if found else paragraph).rstrip(".: ")


def _with_signal(text: str) -> str:
    found = _EXIT_CODE.search(text)
    return text if found is None else text[: found.start(1)] + _told_code(int(found[1])) + text[found.end(1) :]


def _told_code(code: int) -> str:
    name = killed_by(code)
    if name is None:
        return str(code)
    return f"{code} ({name}{', often for want of memory' if name == 'SIGKILL' else ''})"


def _line(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
