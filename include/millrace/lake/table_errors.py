"""What a person sees if a table cannot be read or written."""

from __future__ import annotations

import re

from millrace.lake.object_stores import store_of
from millrace.model import failure
from millrace.model.errors import MillraceError

_COLOURS = re.compile(r"\x1b\[\d+m")
_ANSWERS = (
    re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL),  # from deltalake, and from Arrow
    re.compile(r"AWS Error (\w+) during \w+ operation: (.*)"),
)
_UNTOLD = re.compile(r"HTTP status (\d+)\) during \w+ operation: No response body")
"""A question about one object has no answer that could say more."""
_NO_KEYS = re.compile(r"Error performing token request|Account must be specified")
"""deltalake found no key and asked the machine for its role."""
_BUCKET = "Check the bucket, its keys and their permissions"


def unreadable(what: object, error: Exception, key: str = "lake") -> MillraceError:
    """Return the error for a table, a folder or one of its files that cannot be read."""
    remedy = _BUCKET if _in_bucket(what) else "Restore it, or check its permissions and its _delta_log"
    return MillraceError(key, str(what), "readable Delta tables", f"{remedy} ({reason(error)}).")


def unwritable(what: object, error: Exception, key: str = "lake") -> MillraceError:
    """Return the error for a table that cannot be written."""
    if _in_bucket(what):
        return MillraceError(key, str(what), "a writable bucket", f"{_BUCKET} ({reason(error)}).")
    remedy = f"Free space, or make the folder and its _delta_log writable, then try again ({reason(error)})."
    return MillraceError(key, str(what), "a writable folder with free space", remedy)


def _in_bucket(what: object) -> bool:
    return store_of(str(what)) is not None


def reason(error: Exception) -> str:
    """Return an error's reason in one line, or the response of a bucket's service."""
    text = _COLOURS.sub("", str(error)).strip()
    answer = next(filter(None, (form.search(text) for form in _ANSWERS)), None)
    if answer:
        return f"{answer[1]}: {answer[2].strip().splitlines()[0].rstrip('.')}"
    if _NO_KEYS.search(text):
        return "no keys were found, and the machine has no role that may be used"
    if untold := _UNTOLD.search(text):
        return f"HTTP status {untold[1]}; perhaps the keys have expired or belong to another region"
    return failure.reason_of(text) if text else type(error).__name__
