"""Objects of the Kubernetes API: kept by resource, found by selectors, changed by patches, watched by version."""

from __future__ import annotations

import asyncio
import copy
import re
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Resource, namespace and name."""
REQUIREMENT = re.compile(
    r"\s*(?P<not>!)?(?P<key>[\w./-]+)\s*(?:(?P<op>==?|!=|\bin\b|\bnotin\b)\s*(?P<value>\(.*?\)|[^,]*))?,?"
)


class Missing(LookupError):  # noqa: N818 - an answer, not a defect
    """There is no such object."""


class Exists(LookupError):  # noqa: N818
    """There is such an object already."""


@dataclass(frozen=True)
class Change:
    """One change of an object; None stands for no object before or after it."""

    version: int
    resource: str
    before: Object | None
    after: Object | None


@dataclass
class Objects:
    """The objects of a cluster, and every change since its start."""

    found: dict[Key, Object] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def version(self) -> int:
        return len(self.changes)

    def create(self, resource: str, namespace: str, content: Object) -> Object:
        """Store a new object.

        Raises:
            Exists: If its name is taken.
        """
        about = content.setdefault("metadata", {})
        name = about.setdefault("name", f"{about.get('generateName', '')}{uuid.uuid4().hex[:5]}")
        if (resource, namespace, name) in self.found:
            raise Exists(f'{resource} "{name}" already exists')
        about |= {"namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": now()}
        return self._put((resource, namespace, name), content)

    def get(self, resource: str, namespace: str, name: str) -> Object:
        """Return an object.

        Raises:
            Missing: If there is none.
        """
        try:
            return self.found[resource, namespace, name]
        except KeyError:
            raise Missing(f'{resource} "{name}" not found') from None

    def select(self, resource: str, namespace: str | None, matches: Callable[[Object], bool]) -> list[Object]:
        """Return objects in the order of their names; None selects every namespace."""
        keys = sorted(key for key in self.found if key[0] == resource and namespace in (None, key[1]))
        return [self.found[key] for key in keys if matches(self.found[key])]

    def change(self, resource: str, namespace: str, name: str, edit: Callable[[Object], Object]) -> Object:
        """Replace an object by what a function makes of a copy."""
        content = edit(copy.deepcopy(self.get(resource, namespace, name)))
        return self._put((resource, namespace, name), content)

    def remove(self, resource: str, namespace: str, name: str) -> Object:
        """Remove an object and return it."""
        before = self.get(resource, namespace, name)
        del self.found[resource, namespace, name]
        self._note(resource, before, None)
        return before

    async def watch(
        self, resource: str, namespace: str | None, since: int, matches: Callable[[Object], bool]
    ) -> AsyncIterator[Object]:
        """Yield events of objects that match, or have matched, after a version."""
        while True:
            for change in self.changes[since:]:
                since = change.version
                event = _event(change, resource, namespace, matches)
                if event is not None:
                    yield event
            changed = self._changed
            if since == self.version:
                await changed.wait()

    def _put(self, key: Key, content: Object) -> Object:
        content["metadata"]["resourceVersion"] = str(self.version + 1)
        before = self.found.get(key)
        self.found[key] = content
        self._note(key[0], before, content)
        return content

    def _note(self, resource: str, before: Object | None, after: Object | None) -> None:
        self.changes.append(Change(self.version + 1, resource, before, after))
        self._changed.set()
        self._changed = asyncio.Event()


def now() -> str:
    """Return the time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def label_selector(text: str) -> Callable[[Object], bool]:
    """Return a test of an object's labels for a selector such as ``app=a,role in (x,y),!gone``."""
    requirements = [match.groupdict() for match in REQUIREMENT.finditer(text or "") if match["key"]]
    return lambda content: all(
        _meets(content.get("metadata", {}).get("labels") or {}, requirement) for requirement in requirements
    )


def field_selector(text: str) -> Callable[[Object], bool]:
    """Return a test of an object's fields for a selector such as ``status.phase=Pending``."""
    pairs = [re.split(r"(!=|==?)", part) for part in (text or "").split(",") if part]
    return lambda content: all((_field(content, path) == value) is (op != "!=") for path, op, value in pairs)


def merged(target: Any, patch: Any) -> Any:
    """Return a JSON merge patch applied to a value."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _meets(labels: Mapping[str, str], wanted: Mapping[str, str | None]) -> bool:
    value, op = labels.get(wanted["key"] or ""), wanted["op"]
    if op is None:
        return (value is None) is bool(wanted["not"])
    values = [each.strip() for each in (wanted["value"] or "").strip("() ").split(",")]
    return (value in values) is (op in ("=", "==", "in"))


def _field(content: Object, path: str) -> str:
    found: Any = content
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return "" if found is None else str(found)


def _event(change: Change, resource: str, namespace: str | None, matches: Callable[[Object], bool]) -> Object | None:
    """Return what a watch sends: an object that no longer matches counts as deleted, one that newly does as added."""
    subject = change.after or change.before
    assert subject is not None
    if change.resource != resource or namespace not in (None, subject["metadata"].get("namespace")):
        return None
    was, is_now = (each is not None and matches(each) for each in (change.before, change.after))
    if not was and not is_now:
        return None
    kind = "MODIFIED" if was and is_now else "ADDED" if is_now else "DELETED"
    about = {**subject["metadata"], "resourceVersion": str(change.version)}
    return {"type": kind, "object": {**subject, "metadata": about}}
