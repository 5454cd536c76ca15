"""A YARN of one node on this machine: Hadoop's own mini cluster, in a JVM that Py4J talks to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from millrace.environment.jars import SHARE, JarSet
from millrace.local.stack.setup import ensure_jars
from tests.jobs.driving import until

JARS = JarSet("YARN", Path(__file__).with_name("minicluster_jars.sha256"), SHARE / "yarn")
RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager"
SETTINGS: Mapping[str, str] = {
    "yarn.resourcemanager.scheduler.class": f"{RESOURCE_MANAGER}.scheduler.fifo.FifoScheduler",
    "yarn.resourcemanager.am.max-attempts": "1",
    # the mini cluster has its own setting for it, and 4 GB otherwise
    "yarn.minicluster.yarn.nodemanager.resource.memory-mb": "8192",
    "yarn.nodemanager.resource.cpu-vcores": "16",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100.0",
    "yarn.scheduler.minimum-allocation-mb": "64",
}


@contextmanager
def yarn_cluster(folder: Path) -> Iterator[Path]:
    """Run a cluster with its files in a folder, and yield the value for HADOOP_CONF_DIR."""
    ensure_jars(JARS)
    conf_dir, class_path = folder / "conf", ":".join(map(str, JARS.paths()))
    conf_dir.mkdir(parents=True)
    with (folder / "yarn.log").open("wb") as log:
        conf = SparkConf(loadDefaults=False).set("spark.driver.extraClassPath", class_path)
        gateway = launch_gateway(conf, {"cwd": folder, "stdout": log, "stderr": log})
        try:
            cluster = _start(gateway.jvm, folder)
            _write(gateway.jvm, cluster.getConfig(), conf_dir / "yarn-site.xml")
            yield conf_dir
            cluster.stop()
        finally:
            gateway.shutdown()
            gateway.proc.kill()
            gateway.proc.wait()


def _start(jvm: Any, folder: Path) -> Any:
    conf = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for key, value in {**SETTINGS, "hadoop.tmp.dir": str(folder / "hadoop")}.items():
        conf.set(key, value)
    cluster = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("millrace", 1, 1, 1)
    cluster.init(conf)
    cluster.start()
    until(lambda: not cluster.getConfig().get("yarn.resourcemanager.address").endswith(":0"), "YARN's port")
    return cluster


def _write(jvm: Any, conf: Any, path: Path) -> None:
    out = jvm.java.io.FileOutputStream(str(path))
    conf.writeXml(out)
    out.close()
