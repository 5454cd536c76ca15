"""What Kubernetes does about executors that were requested and have not registered.

Spark requests pods, and only its log shows what the API server answers. This module lists the app's pods: a pod that
waits for a node is pending, however long that takes. If there are fewer pods than requested, a dry run of another pod
shows why the API server refuses it: a quota, a missing permission.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.model.failure import reason
from millrace.runtime.spark_versions import kubernetes_client

LOOK_S = 5.0
"""Time between two looks: the API server serves others, too."""
NAMESPACE = "spark.kubernetes.namespace"
APP_LABEL, ROLE_LABEL = "spark-app-selector", "spark-role"
IMAGE_PROBLEMS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName")
MOST_CHARACTERS = 300
GRANT = "Grant the driver's service account the Role in docs/kubernetes.md."
Pod = Mapping[str, Any]


@dataclass(frozen=True)
class Shortage:
    """Why executors are missing.

    Attributes:
        pending: Whether they may still come by themselves.
        sentence: The reason and a remedy; empty if nothing is known.
    """

    pending: bool = False
    sentence: str = ""


class KubernetesPods:
    """The pods of one application's executors.

    Args:
        spark: A session of the application, on Kubernetes.
    """

    def __init__(self, spark: Any) -> None:
        context = spark.sparkContext
        self._namespace = str(context.getConf().get(NAMESPACE, "default"))
        self._app, self._jvm = str(context.applicationId), context._jvm
        self._client = kubernetes_client(context._jsc.sc().schedulerBackend(), str(context.version))

    def shortage(self, registered: int, wanted: int) -> Shortage:
        """Return why fewer executors have registered than are wanted.

        Args:
            registered: Number of registered executors.
            wanted: Number of requested executors, more than that.
        """
        try:
            alive = [pod for pod in self._list() if _is_alive(pod)]
            if len(alive) >= wanted:
                return Shortage(True, _waiting(alive))
            return self._refusal(alive, wanted)
        except Exception as error:
            return _failed(error)

    def _list(self) -> Sequence[Pod]:
        """Return the pods, oldest first."""
        found = self._in_namespace().withLabel(APP_LABEL, self._app).withLabel(ROLE_LABEL, "executor").list()
        pods: list[Pod] = json.loads(self._serialization.asJson(found)).get("items", [])
        return sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))

    def _refusal(self, alive: Sequence[Pod], wanted: int) -> Shortage:
        if not alive:
            return Shortage(False, "Kubernetes has no pod of this application. The driver's log says why.")
        newest = alive[-1]["metadata"]
        labels = {"name": f"{newest['name']}-dry-run", "namespace": self._namespace, "labels": newest.get("labels", {})}
        spec = {key: value for key, value in alive[-1]["spec"].items() if key != "nodeName"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": labels, "spec": spec}
        try:
            # a dry run passes every check and stores nothing
            self._in_namespace().resource(self._serialization.unmarshal(json.dumps(pod))).dryRun().create()
        except Exception as error:
            return Shortage(False, f"{len(alive)} of {wanted} pods exist: {_refused(error)}")
        return Shortage(True, _waiting(alive))

    def _in_namespace(self) -> Any:
        return self._client.pods().inNamespace(self._namespace)

    @property
    def _serialization(self) -> Any:
        return self._jvm.io.fabric8.kubernetes.client.utils.Serialization


class Shortages:
    """Looks at the pods in a thread of its own, because a server that is down makes its clients wait for minutes.

    Args:
        pods: The pods.
    """

    def __init__(self, pods: KubernetesPods) -> None:
        self._pods, self._last, self._looked_s = pods, Shortage(True), 0.0
        self._asked: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None

    def look(self, registered: int, wanted: int) -> Shortage:
        """Return what the last look has found, and start the next one if it is due."""
        asked, now = (registered, wanted), time.monotonic()
        if asked != self._asked:
            self._last = Shortage(True)  # of another request
        if (self._thread is None or not self._thread.is_alive()) and (
            asked != self._asked or now - self._looked_s > LOOK_S
        ):
            self._looked_s = now
            self._thread = threading.Thread(target=self._look, args=asked, name="millrace-pods", daemon=True)
            self._thread.start()
            self._asked = asked
        return self._last

    def _look(self, registered: int, wanted: int) -> None:
        found = self._pods.shortage(registered, wanted)
        if self._asked == (registered, wanted):
            self._last = found


def _is_alive(pod: Pod) -> bool:
    return pod["status"].get("phase") in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]


def _waiting(alive: Sequence[Pod]) -> str:
    """Return what pods wait for, as a sentence; empty if none is pending."""
    pending = [pod for pod in alive if pod["status"].get("phase") == "Pending"]
    if not pending:
        return ""
    some = f"{len(pending)} pod{'s are' if len(pending) > 1 else ' is'} pending"
    why, remedy = next(filter(None, map(_why, pending)), ("", ""))
    return f"{some}{': ' if why else ''}{why.rstrip('.')}.{' ' if remedy else ''}{remedy}"


def _why(pod: Pod) -> tuple[str, str] | None:
    """Return why a pod is pending, and what to do about it; None if it only takes its time."""
    for status in pod["status"].get("containerStatuses", ()):
        waits = status.get("state", {}).get("waiting") or {}
        if waits.get("reason") in IMAGE_PROBLEMS:
            told = waits.get("message") or waits["reason"]
            return told[:MOST_CHARACTERS], "Correct spark.kubernetes.container.image under submit.conf."
    for condition in pod["status"].get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            remedy = "Unless new nodes start by themselves, add some, or lower slots.max or the size of executors."
            return str(condition.get("message", ""))[:MOST_CHARACTERS], remedy
    return None


def _refused(error: Exception) -> str:
    """Return why the API server refuses a pod, and what to do about it."""
    message = _message(error)
    if "exceeded quota" in message:
        return f"{message}. Raise the ResourceQuota of the namespace, or lower slots.max."
    return f"{message}. {GRANT}" if "cannot create" in message else f"{message}."


def _failed(error: Exception) -> Shortage:
    """Return what is known if the API server does not list pods: they may still come."""
    message = _message(error)
    if "cannot list" in message:
        return Shortage(True, f"Kubernetes does not show the pods: {message}. {GRANT}")
    told = f"the Kubernetes API server does not answer ({message}). Executors that run are not affected; Spark asks"
    return Shortage(True, f"{told} again once it is back.")


def _message(error: Exception) -> str:
    """Return the API server's own words if there are any."""
    raised = getattr(error, "java_exception", None)
    try:
        status = None if raised is None else raised.getStatus()
        if status is not None and status.getMessage():
            return str(status.getMessage()).rstrip(".")[:MOST_CHARACTERS]
        cause = None if raised is None else raised.getCause()
        if cause is not None:
            return str(cause.getMessage() or cause.getClass().getSimpleName())[:MOST_CHARACTERS]
    except Exception:  # the JVM is gone, too: the first error says more
        return reason(error)
    return reason(error).rstrip(".")[:MOST_CHARACTERS]
