"""What an attached driver knows of its own application: its name, slots and settings, and whether it can be resized."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from millrace.lake.driver_hosts import this_host
from millrace.model.attached_driver import DRIVER_MEMORY, EXECUTOR_CORES, EXECUTOR_MEMORY, kib
from millrace.model.deployment import AppDeployment, ExecutorSize
from millrace.model.submit_conf import TASK_CPUS, tasks_at_once
from millrace.runtime.agent.allocation import Allocation
from millrace.runtime.agent.kubernetes_pods import NAMESPACE
from millrace.runtime.agent.placement import StatePlacement
from millrace.runtime.spark_versions import is_missing, lacks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DYNAMIC = "spark.dynamicAllocation.enabled"
NEEDED = {
    DYNAMIC: "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "false",
    # an executor that leaves hands over the shuffle output of the running batch before it ends
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
}
"""Settings without which executors cannot come and go while a query runs."""
DEFAULTS = {EXECUTOR_MEMORY: "1g", DRIVER_MEMORY: "1g"}
"""Spark's own defaults of the settings that a heartbeat reports."""
APPLICATION_LABEL = "spark.kubernetes.driver.label.sparkoperator.k8s.io/app-name"
"""Set by the Spark operator."""
SECRET = re.compile(r"(?i)secret|password|token|access\.?key|credential")
"""Names of settings whose values are never reported."""


class AttachedApp:
    """The application that a driver runs.

    Args:
        spark: Any session of the application.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._context = spark, spark.sparkContext
        self._conf: Any = spark.sparkContext.getConf()
        self.is_local = self._context.master.startswith("local")
        self._allocation = None if self.is_local else Allocation(spark)
        self._lacking = "" if self._allocation is None else _lacking(spark, self._allocation)

    @property
    def name(self) -> str:
        """How a person finds the driver."""
        return f"{self._context.applicationId} ({self._context.appName}) on {this_host()}, process {os.getpid()}"

    @property
    def spark_application(self) -> str:
        """Namespace and name of the SparkApplication that it comes from; empty if there is none."""
        name = self._conf.get(APPLICATION_LABEL, "")
        return f"{self._conf.get(NAMESPACE, 'default')}/{name}" if name else ""

    @property
    def cores(self) -> int:
        """Cores of an executor; 1 if that is unknown because none has registered yet."""
        text = self._conf.get(EXECUTOR_CORES, "")
        if text.isdecimal():
            return int(text)
        lifetimes = () if self._allocation is None else self._allocation.lifetimes()
        return max((lifetime.cores for lifetime in lifetimes if lifetime.ended is None), default=1)

    @property
    def slots(self) -> int:
        """Tasks that can run at once now."""
        if self._allocation is None:
            return max(1, int(self._context.defaultParallelism))
        return sum(
            tasks_at_once(executor.cores or self.cores, self._task_conf) for executor in self._allocation.registered()
        )

    def settings(self, names: Iterable[str]) -> dict[str, str]:
        """Return settings by name; those that are not set have Spark's default, or an empty text."""
        found = {name: self._conf.get(name, DEFAULTS.get(name, "")) for name in names if not SECRET.search(name)}
        return found if EXECUTOR_CORES not in found else {**found, EXECUTOR_CORES: str(self.cores)}

    def content(self, wanted: AppDeployment) -> AppDeployment:
        """Return a Deployment's content as far as this driver has it: with the size of its own executors."""
        memory_kib = kib(self._conf.get(EXECUTOR_MEMORY, DEFAULTS[EXECUTOR_MEMORY])) or 0
        size = ExecutorSize(self.cores, memory_kib >> 10)
        return replace(wanted, executor=size, submit={**wanted.submit, "conf": self._task_conf})

    @property
    def _task_conf(self) -> dict[str, str]:
        return {TASK_CPUS: self._conf.get(TASK_CPUS, "1")}

    def unable(self) -> str:
        """Return why its executors cannot be changed, as a sentence; empty if they can."""
        if self.is_local:
            return (
                f"its master is {self._context.master}, which has no executors. Submit it to a cluster to let Millrace "
                "change its slots."
            )
        if self._conf.get(DYNAMIC, "false").strip().lower() != "true":
            options = " ".join(f"--conf {name}={value}" for name, value in NEEDED.items())
            return f"{DYNAMIC} is not true, so its executors are fixed. Submit it with {options}."
        return self._lacking

    def advice(self) -> str:
        """Return which settings would make changes cheaper, as a sentence; empty if none would."""
        missing = [f"--conf {name}={value}" for name, value in NEEDED.items() if self._conf.get(name, "") != value]
        if not missing:
            return ""
        return (
            "Executors that leave take shuffle output of the running batch with them, and Spark computes it again. "
            f"To have it handed over, submit with {' '.join(missing)}."
        )


def _lacking(spark: SparkSession, allocation: Allocation) -> str:
    """Return what this version of Spark lacks, as a sentence, by calls that change nothing; empty if it has all."""
    try:
        allocation.registered()
        allocation.lifetimes()
        StatePlacement(spark)
    except Exception as error:
        if is_missing(error):
            return lacks(allocation.spark_version, error)
        raise
    return ""
