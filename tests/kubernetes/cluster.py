"""A Kubernetes cluster of one node on this machine, for Spark's executors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from millrace.environment import spark_env
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.networks import Network, pod_network
from tests.kubernetes.objects import Object

NAMESPACE = "streaming"


@dataclass(frozen=True)
class Cluster:
    """The cluster.

    Attributes:
        api: Its API server.
        kubelet: What runs the pods.
        network: Where pods run.
        folder: The pods' files; each has a file ``log``.
    """

    api: ApiServer
    kubelet: Kubelet
    network: Network
    folder: Path

    @property
    def master(self) -> str:
        return f"k8s://{self.api.address}"

    @property
    def conf(self) -> dict[str, str]:
        """Settings of an application on it."""
        return {
            "spark.kubernetes.namespace": NAMESPACE,
            "spark.kubernetes.container.image": "registry.example/spark-python:4.2.0",
            "spark.driver.host": self.network.host,
            "spark.driver.bindAddress": self.network.host,
            # a busy machine loads classes for longer than the usual 10 s
            "spark.kubernetes.driver.requestTimeout": "120000",
            "spark.kubernetes.driver.connectionTimeout": "120000",
            # JVMs that live for a minute
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }

    def pods(self, phase: str | None = None) -> list[Object]:
        """Return the pods, or those of a phase."""
        items = self._ask("GET", "").json()["items"]
        return [pod for pod in items if phase in (None, pod["status"]["phase"])]

    def delete(self, name: str) -> None:
        """Delete a pod, as a person, a preemption or a drained node does."""
        self._ask("DELETE", f"/{name}").raise_for_status()

    def logs(self) -> str:
        """Return the ends of the pods' logs."""
        return "\n".join(f"{log.parent.name}:\n{log.read_text()[-1500:]}" for log in self.folder.glob("*/log"))

    def _ask(self, method: str, path: str) -> Any:
        # the kubelet's name: faults are for Spark
        address = f"{self.api.address}/api/v1/namespaces/{NAMESPACE}/pods{path}"
        return httpx.request(method, address, headers={"User-Agent": "kubelet"}, timeout=30.0)


@contextmanager
def kubernetes_cluster(folder: Path, spark_home: Path | None = None, python: Path | None = None) -> Iterator[Cluster]:
    """Run a cluster.

    Args:
        folder: Where pods have their files.
        spark_home: Spark's folder in the image; by default this environment's.
        python: The image's interpreter; by default this environment's.
    """
    api = ApiServer()
    with pod_network() as network:
        kubelet = Kubelet(
            api.address, spark_home or spark_env.spark_home(), python or spark_env.python(), folder, network
        )
        try:
            yield Cluster(api, kubelet, network, folder)
        finally:
            kubelet.close()
            api.stop()
