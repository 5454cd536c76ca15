"""What went wrong in a script, in one line."""

from __future__ import annotations

import re

LIMIT = 500
_EXCEPTION_LINE = re.compile(r"^[A-Za-z_][\w.]*(?::\s.*)?$")
"""How a traceback ends; exceptions may be called anything."""
_PLAN = "=== Streaming Query ==="
"""What Spark says behind this is the query's plan and nothing of the cause."""


def describe(error: BaseException) -> str:
    """Return an exception's type and last line.

    A failed batch reaches Python as a StreamingQueryException whose text holds the stages' traceback: the cause
    is the last line there that names an exception of the script's own code.
    """
    name, text = type(error).__name__, str(error).partition(_PLAN)[0]
    if name in ("StreamingQueryException", "PythonException", "Py4JJavaError"):
        inner = _python_cause(text) or _java_cause(text)
        if inner:
            return inner[:LIMIT]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (f"{name}: {lines[-1]}" if lines else name)[:LIMIT]


def _python_cause(text: str) -> str | None:
    at = text.rfind("Traceback (most recent call last)")
    if at < 0:
        return None
    for line in text[at:].splitlines()[1:]:
        if line[:1].isspace() or not line.strip():
            continue
        found = _EXCEPTION_LINE.match(line)
        if found:
            return line.strip()
    return None


def _java_cause(text: str) -> str | None:
    lines = [line.strip() for line in text.splitlines()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return causes[-1] if causes else None
