"""An API server on loopback that speaks the part of the Kubernetes API that Spark and a kubelet use.

Selectors, watches by resource version, patches, graceful deletion of pods and the bodies of errors follow the real one.
It knows no users: who may do what is set by :class:`Faults`. The mock server of Spark's client library does not do: it
ignores selectors such as ``spark-exec-id in (1,2)`` and ``status.phase=Pending``, by which Spark deletes pods.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.kubernetes.objects import Exists, Missing, Object, Objects, field_selector, label_selector, merged, now

KINDS = {
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}
ACCOUNT = "system:serviceaccount:streaming:driver"
GRACE_S = 30
ONE, MANY = "/api/v1/namespaces/{namespace}/{resource}/{name}", "/api/v1/namespaces/{namespace}/{resource}"
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass
class Faults:
    """What the server refuses.

    Attributes:
        forbidden: Verbs on pods that nobody may use, as a Role without them: create, get, list, watch, patch, delete.
        pods: Most pods that a ResourceQuota allows; None for any number.
    """

    forbidden: set[str] = field(default_factory=set)
    pods: int | None = None


class Refused(Exception):  # noqa: N818 - an answer, not a defect
    """A request that gets a Status as its answer."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class ApiServer:
    """The server, in a thread of its own.

    Attributes:
        faults: What it refuses; may be changed at any time.
        requests: Verb, path and status of all requests so far.
    """

    def __init__(self) -> None:
        self.faults, self.requests = Faults(), list[tuple[str, str, int]]()
        self._objects, self._loop = Objects(), asyncio.new_event_loop()
        self._runner: web.AppRunner | None = None
        self._watches: set[asyncio.Task[Any]] = set()
        self._port = 0
        threading.Thread(target=self._loop.run_forever, name="kubernetes-api", daemon=True).start()
        self.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Answer requests, with the objects from before :meth:`stop`, on the same port."""
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    def stop(self) -> None:
        """Close all connections and refuse new ones."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()

    def close_watches(self) -> None:
        """End all watches, as a real server does after some minutes."""
        self._loop.call_soon_threadsafe(lambda: [watch.cancel() for watch in self._watches])

    async def _start(self) -> None:
        app = web.Application(middlewares=[self._answering])
        app.router.add_get("/api/v1/{resource}", self._list)
        app.router.add_get(MANY, self._list)
        app.router.add_post(MANY, self._create)
        app.router.add_delete(MANY, self._delete_selected)
        app.router.add_get(ONE, self._get)
        app.router.add_delete(ONE, self._delete)
        app.router.add_post(f"{ONE}/binding", self._bind)
        for path in (ONE, f"{ONE}/status"):
            app.router.add_patch(path, self._patch)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        for watch in self._watches:
            watch.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    @web.middleware
    async def _answering(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            self._authorize(request)
            answer = await handler(request)
        except Refused as refusal:
            answer = _status(refusal.code, refusal.reason, str(refusal))
        except Missing as error:
            answer = _status(404, "NotFound", str(error))
        except Exists as error:
            answer = _status(409, "AlreadyExists", str(error))
        self.requests.append((request.method, request.path_qs, answer.status))
        return answer

    def _authorize(self, request: web.Request) -> None:
        resource, named = request.match_info.get("resource"), "name" in request.match_info
        if resource not in KINDS:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        reads = "watch" if _watches(request) else "get" if named else "list"
        removes = "delete" if named else "deletecollection"
        verb = VERBS.get(request.method, reads if request.method == "GET" else removes)
        is_kubelet = request.headers.get("User-Agent") == "kubelet"
        if resource == "pods" and verb in self.faults.forbidden and not is_kubelet:
            where = f'in the namespace "{request.match_info.get("namespace")}"'
            what = f'User "{ACCOUNT}" cannot {verb} resource "pods" in API group "" {where}'
            raise Refused(403, "Forbidden", f"pods is forbidden: {what}")

    async def _list(self, request: web.Request) -> web.StreamResponse:
        resource, namespace = request.match_info["resource"], request.match_info.get("namespace")
        labels, fields = (label_selector(request.query.get("labelSelector", "")),
                          field_selector(request.query.get("fieldSelector", "")))  # fmt: skip

        def matches(content: Object) -> bool:
            return labels(content) and fields(content)

        if _watches(request):
            return await self._watch(request, resource, namespace, matches)
        items = self._objects.select(resource, namespace, matches)
        about = {"resourceVersion": str(self._objects.version)}
        return _json({"kind": f"{KINDS[resource]}List", "apiVersion": "v1", "metadata": about, "items": items})

    async def _watch(
        self, request: web.Request, resource: str, namespace: str | None, matches: Callable[[Object], bool]
    ) -> web.StreamResponse:
        since, first = request.query.get("resourceVersion", ""), list[Object]()
        if since in ("", "0"):  # what there is comes first
            first = [{"type": "ADDED", "object": found} for found in self._objects.select(resource, namespace, matches)]
            since = str(self._objects.version)
        sockets = web.WebSocketResponse()
        answer: web.StreamResponse = sockets if sockets.can_prepare(request).ok else web.StreamResponse()
        answer.content_type = "application/json"
        await answer.prepare(request)
        events = self._objects.watch(resource, namespace, int(since), matches)
        await self._until_one_ends(_send(answer, first, events), _until_closed(answer))
        if answer is sockets:
            await sockets.close()
        return answer

    async def _until_one_ends(self, *work: Coroutine[Any, Any, None]) -> None:
        """Run a watch until its client or :meth:`close_watches` ends it."""
        jobs = {asyncio.ensure_future(each) for each in work}
        self._watches |= jobs
        try:
            await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._watches -= jobs
            for job in jobs:
                job.cancel()

    async def _create(self, request: web.Request) -> web.Response:
        resource, namespace = request.match_info["resource"], request.match_info["namespace"]
        content = await request.json()
        content |= {"kind": KINDS[resource], "apiVersion": "v1"}
        if resource == "pods":
            self._admit(namespace, content)
            content["status"] = {"phase": "Pending"}
        if "dryRun" in request.query:
            return _json(content, 201)
        return _json(self._objects.create(resource, namespace, content), 201)

    def _admit(self, namespace: str, content: Object) -> None:
        used, most = len(self._objects.select("pods", namespace, lambda _: True)), self.faults.pods
        if most is not None and used >= most:
            name = content.get("metadata", {}).get("name", "")
            told = f"exceeded quota: pods, requested: pods=1, used: pods={used}, limited: pods={most}"
            raise Refused(403, "Forbidden", f'pods "{name}" is forbidden: {told}')

    async def _get(self, request: web.Request) -> web.Response:
        return _json(self._objects.get(*_key(request)))

    async def _patch(self, request: web.Request) -> web.Response:
        patch = await request.json()
        if not isinstance(patch, dict):
            raise Refused(415, "UnsupportedMediaType", "this server takes merge patches only")
        return _json(self._objects.change(*_key(request), lambda found: merged(found, patch)))

    async def _bind(self, request: web.Request) -> web.Response:
        node = (await request.json())["target"]["name"]
        self._objects.change(*_key(request), lambda found: merged(found, {"spec": {"nodeName": node}}))
        return _status(201, "", "")

    async def _delete(self, request: web.Request) -> web.Response:
        return _json(
            self._remove(self._objects.get(*_key(request)), request.match_info["resource"], await _grace(request))
        )

    async def _delete_selected(self, request: web.Request) -> web.Response:
        resource, grace = request.match_info["resource"], await _grace(request)
        labels = label_selector(request.query.get("labelSelector", ""))
        fields = field_selector(request.query.get("fieldSelector", ""))
        found = self._objects.select(resource, request.match_info["namespace"], lambda o: labels(o) and fields(o))
        items = [self._remove(each, resource, grace) for each in found]
        return _json({"kind": f"{KINDS[resource]}List", "apiVersion": "v1", "metadata": {}, "items": items})

    def _remove(self, found: Object, resource: str, grace: int | None) -> Object:
        """Remove an object; a pod on a node gets a time of grace, in which its kubelet ends it."""
        key = resource, found["metadata"]["namespace"], found["metadata"]["name"]
        runs = found.get("status", {}).get("phase") in ("Pending", "Running") and found.get("spec", {}).get("nodeName")
        grace_s = found.get("spec", {}).get("terminationGracePeriodSeconds", GRACE_S) if grace is None else grace
        if resource != "pods" or not runs or not grace_s:
            return self._objects.remove(*key)
        if "deletionTimestamp" in found["metadata"]:
            return found
        marks = {"deletionTimestamp": now(), "deletionGracePeriodSeconds": grace_s}
        return self._objects.change(*key, lambda content: merged(content, {"metadata": marks}))


async def _send(answer: web.StreamResponse, first: Sequence[Object], later: AsyncIterator[Object]) -> None:
    """Send events as messages of a web socket, or as lines."""

    async def send(event: Object) -> None:
        if isinstance(answer, web.WebSocketResponse):
            await answer.send_str(json.dumps(event))
        else:
            await answer.write(json.dumps(event).encode() + b"\n")

    for event in first:
        await send(event)
    async for event in later:
        await send(event)


async def _until_closed(answer: web.StreamResponse) -> None:
    """Wait until the client closes a web socket; a client that reads lines is only noticed when it is sent one."""
    if isinstance(answer, web.WebSocketResponse):
        async for _ in answer:
            pass
    else:
        await asyncio.Event().wait()


def _watches(request: web.Request) -> bool:
    return request.query.get("watch", "") in ("true", "1")


def _key(request: web.Request) -> tuple[str, str, str]:
    info = request.match_info
    return info["resource"], info["namespace"], info["name"]


async def _grace(request: web.Request) -> int | None:
    """Return the time of grace that a deletion asks for, seconds; None for the pod's own."""
    if "gracePeriodSeconds" in request.query:
        return int(request.query["gracePeriodSeconds"])
    body = await request.text()
    return (json.loads(body) or {}).get("gracePeriodSeconds") if body else None


def _json(content: Object, status: int = 200) -> web.Response:
    return web.json_response(content, status=status)


def _status(code: int, reason: str, message: str) -> web.Response:
    outcome = "Success" if code < 300 else "Failure"
    about = {"reason": reason, "message": message, "code": code, "metadata": {}}
    return _json({"kind": "Status", "apiVersion": "v1", "status": outcome, **about}, code)
