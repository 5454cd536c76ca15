"""A kubelet for Spark's executors: it runs each pod's executor as a process of this machine and reports on it.

The image is ignored. What Spark's image runs for ``executor`` runs here, with the Spark of a folder.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.kubernetes.networks import Network
from tests.kubernetes.objects import Object, now

POLL_S = 0.1
NODE = "node-1"
BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
NO_NODE = "0/1 nodes are available: 1 Insufficient cpu."
KILLED = 137
"""Exit code of a container that was killed by signal 9."""


@dataclass
class Node:
    """What the node does to pods; may be changed at any time.

    Attributes:
        pending_s: Time after its creation for which a pod finds no room, seconds, as while a new node starts.
        pods: Most pods that run at once; others stay pending.
    """

    pending_s: float = 0.0
    pods: int = 99


class Kubelet:
    """Runs the pods of an API server.

    Attributes:
        node: What the node does to pods.

    Args:
        address: The API server.
        spark_home: Spark's folder, as in the image.
        python: The interpreter of Python workers, as in the image.
        folder: Folder for the files of the pods.
        network: The pods' network.
    """

    def __init__(self, address: str, spark_home: Path, python: Path, folder: Path, network: Network) -> None:
        self.node = Node()
        self._spark_home, self._python, self._folder, self._network = spark_home, python, folder, network
        self._api = httpx.Client(base_url=address, headers={"User-Agent": "kubelet"}, timeout=30.0)
        self._ended, self._threads, self._running = threading.Event(), dict[str, threading.Thread](), dict[str, str]()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._reasons: dict[str, str] = {}
        self._look = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._look.start()

    def kill(self, name: str, reason: str = "OOMKilled") -> None:
        """Kill a pod's processes at once, as the kernel does if they need more memory than the pod's limit.

        Args:
            name: The pod.
            reason: Reason in the container's status.
        """
        self._reasons[name] = reason
        _kill(self._processes[name])

    def processes(self) -> list[str]:
        """Return the names of the pods whose container runs."""
        return [name for name, process in list(self._processes.items()) if process.poll() is None]

    def close(self) -> None:
        """Kill all that runs."""
        self._ended.set()
        self._look.join()
        for thread in list(self._threads.values()):
            thread.join()
        self._api.close()

    def _run(self) -> None:
        while not self._ended.wait(POLL_S):
            found = self._ask("GET", "/api/v1/pods")
            for pod in [] if found is None else found["items"]:
                uid, done = pod["metadata"]["uid"], pod["status"]["phase"] in ("Succeeded", "Failed")
                if uid not in self._threads and not done:
                    self._threads[uid] = threading.Thread(target=self._follow, args=(pod,), daemon=True)
                    self._threads[uid].start()

    def _follow(self, pod: Object) -> None:
        """Bring a pod through its life."""
        name, made_s = pod["metadata"]["name"], time.monotonic()
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}"
        if not self._await_node(path, made_s):
            return
        self._ask("POST", f"{path}/binding", {"target": {"name": NODE}})
        place = self._network.join(name)
        try:
            process = self._start(pod, place.address, place.command)
            self._processes[name] = process
            running = {"running": {"startedAt": now()}}
            self._report(path, pod, "Running", running, podIP=place.address, hostIP="127.0.0.1", startTime=now())
            deleted = self._await_end(path, process, pod)
            code = process.returncode if process.returncode >= 0 else 128 - process.returncode
            self._report_end(path, pod, code, self._reasons.pop(name, "Error"))
            if deleted:
                self._ask("DELETE", path, {"gracePeriodSeconds": 0})
        finally:
            self._network.leave(name)
            self._running.pop(name, None)

    def _await_node(self, path: str, made_s: float) -> bool:
        """Wait for room; False if the pod is deleted before, or the kubelet ends."""
        name = path.rpartition("/")[2]
        waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_NODE}
        told = False
        while time.monotonic() - made_s < self.node.pending_s or len(self._running) >= self.node.pods:
            if not told:
                told = self._ask("PATCH", f"{path}/status", {"status": {"conditions": [waits]}}) is not None
            if self._ended.wait(POLL_S) or self._is_gone(path):
                return False
        self._running[name] = path
        return not self._ended.is_set()

    def _await_end(self, path: str, process: subprocess.Popen[bytes], pod: Object) -> bool:
        """Wait until a container has ended; return whether its pod was deleted, which ends it."""
        told_s: float | None = None
        while process.poll() is None:
            found = None if self._ended.is_set() else self._ask("GET", path)
            if self._ended.is_set():
                _kill(process)
            elif told_s is None and found is not None and (found == {} or "deletionTimestamp" in found["metadata"]):
                told_s = time.monotonic()
                # the image's preStop command, decom.sh, sends PWR; a container without it gets TERM
                has_hook = "lifecycle" in pod["spec"]["containers"][0]
                _signal(process, signal.SIGPWR if has_hook else signal.SIGTERM)
            elif told_s is not None and time.monotonic() - told_s > pod["spec"]["terminationGracePeriodSeconds"]:
                _kill(process)
            time.sleep(POLL_S)
        return told_s is not None

    def _start(self, pod: Object, address: str, prefix: tuple[str, ...]) -> subprocess.Popen[bytes]:
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]
        folder = self._folder / name
        folder.mkdir(parents=True)
        mounts = self._mount(pod, folder)
        fields = {"status.podIP": address, "metadata.name": name}
        env = {each["name"]: _value(each, fields) for each in container["env"]}
        env = {key: _mounted(value, mounts) for key, value in env.items()}
        env = {
            "PATH": os.environ["PATH"],
            "SPARK_HOME": str(self._spark_home),
            "PYSPARK_PYTHON": str(self._python),
            **env,
        }
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(
                [*prefix, *executor_command(env)], cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True
            )

    def _mount(self, pod: Object, folder: Path) -> Mapping[str, Path]:
        """Make a pod's volumes and return their folders by where containers mount them."""
        folders = {}
        for volume in pod["spec"].get("volumes", ()):
            folders[volume["name"]] = folder / volume["name"]
            folders[volume["name"]].mkdir()
            if "configMap" in volume:
                space, name = pod["metadata"]["namespace"], volume["configMap"]["name"]
                found = self._until_there(f"/api/v1/namespaces/{space}/configmaps/{name}")
                for item in volume["configMap"].get("items", ()):
                    (folders[volume["name"]] / item["path"]).write_text(found["data"][item["key"]])
        mounts = pod["spec"]["containers"][0].get("volumeMounts", ())
        return {mount["mountPath"]: folders[mount["name"]] for mount in mounts if mount["name"] in folders}

    def _until_there(self, path: str) -> Object:
        """Return an object once it exists: Spark makes an executor's configMap after its first pods."""
        while not (found := self._ask("GET", path)):
            if self._ended.wait(POLL_S):
                raise InterruptedError(path)
        return found

    def _is_gone(self, path: str) -> bool:
        return self._ask("GET", path) == {}

    def _report(self, path: str, pod: Object, phase: str, state: Object, **more: Any) -> None:
        ready = "True" if phase == "Running" else "False"
        container = {"name": pod["spec"]["containers"][0]["name"], "state": state, "ready": ready == "True"}
        container |= {"image": pod["spec"]["containers"][0]["image"], "imageID": "", "restartCount": 0}
        conditions = [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")]
        conditions.append({"type": "PodScheduled", "status": "True"})
        status = {"phase": phase, "containerStatuses": [container], "conditions": conditions, **more}
        while self._ask("PATCH", f"{path}/status", {"status": status}) is None and not self._ended.wait(POLL_S):
            pass  # the API server is down: a kubelet reports once it is back

    def _report_end(self, path: str, pod: Object, code: int, reason: str) -> None:
        reason = "Completed" if code == 0 else reason
        ended = {
            "exitCode": code,
            "reason": reason,
            "finishedAt": now(),
            "startedAt": pod["metadata"]["creationTimestamp"],
        }
        self._report(path, pod, "Failed" if code else "Succeeded", {"terminated": ended, "running": None})

    def _ask(self, method: str, path: str, content: Object | None = None) -> Object | None:
        """Return the answer; an empty one if there is no such object, None if the server does not answer."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        body = None if content is None else json.dumps(content)
        try:
            answer = self._api.request(method, path, content=body, headers={"Content-Type": kind})
        except httpx.HTTPError:
            return None
        return {} if answer.status_code == 404 else answer.json() if answer.is_success else None


def executor_command(env: Mapping[str, str]) -> list[str]:
    """Return what the entry point of Spark's image runs for an executor."""
    count = sum(key.startswith("SPARK_JAVA_OPT_") for key in env)
    options = [env[f"SPARK_JAVA_OPT_{number}"] for number in range(count)]
    memory, java = env["SPARK_EXECUTOR_MEMORY"], shutil.which("java")
    path = [env.get("SPARK_CONF_DIR"), f"{env['SPARK_HOME']}/jars/*", env.get("SPARK_CLASSPATH")]
    return [
        *(str(java), *options, f"-Xms{memory}", f"-Xmx{memory}", "-cp", ":".join(filter(None, path)), BACKEND),
        *("--driver-url", env["SPARK_DRIVER_URL"], "--executor-id", env["SPARK_EXECUTOR_ID"]),
        *("--cores", env["SPARK_EXECUTOR_CORES"], "--app-id", env["SPARK_APPLICATION_ID"]),
        *("--hostname", env["SPARK_EXECUTOR_POD_IP"], "--resourceProfileId", env["SPARK_RESOURCE_PROFILE_ID"]),
        *("--podName", env["SPARK_EXECUTOR_POD_NAME"]),
    ]


def _value(variable: Object, fields: Mapping[str, str]) -> str:
    if "valueFrom" in variable:
        return fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
    return str(variable.get("value", ""))


def _mounted(value: str, mounts: Mapping[str, Path]) -> str:
    for path, folder in mounts.items():
        value = value.replace(path, str(folder))
    return value


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to the container's first process: ours, or the only child of the one that made its namespaces."""
    try:
        every = psutil.Process(process.pid).children(recursive=True)
        jvm = [each for each in every if each.name() == "java"] or [psutil.Process(process.pid)]
        jvm[0].send_signal(number)
    except psutil.NoSuchProcess:
        pass


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill all processes of a container."""
    try:
        every = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return
    _signal(process, signal.SIGKILL)
    for each in every:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()
