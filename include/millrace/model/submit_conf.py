"""Settings of ``submit.conf`` that define a slot, or that follow from other keys of the spec."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.model.errors import MillraceError

TASK_CPUS = "spark.task.cpus"
ELSEWHERE = {
    "spark.master": "submit.master",
    "spark.app.name": "name",
    "spark.driver.memory": "memory_mb",
    "spark.executor.cores": "executor.cores",
    "spark.executor.memory": "executor.memory_mb",
    "spark.executor.instances": "slots",
    "spark.sql.shuffle.partitions": "max_parallelism",
}
"""Settings that Millrace derives from another key of the spec and bases decisions on."""
DYNAMIC_ALLOCATION = "spark.dynamicAllocation."
CLIENT = ("spark.submit.deployMode", "client")


def task_cpus(conf: Mapping[str, object]) -> int:
    """Return the cores per task: ``spark.task.cpus``, or 1 if it is not set."""
    text = str(conf.get(TASK_CPUS, 1)).strip()
    return int(text) if text.isdecimal() and int(text) else 1


def tasks_at_once(cores: int, conf: Mapping[str, object]) -> int:
    """Return how many tasks run at once on this many executor cores, >= 1."""
    return max(1, cores // task_cpus(conf))


def check(conf: Mapping[str, str], cores: int | None) -> None:
    """Refuse settings that Millrace would override, or that would make it miscount slots.

    Args:
        conf: The settings.
        cores: Cores of an executor; None if the driver runs everything itself.

    Raises:
        MillraceError: If there is such a setting; it names the key of the spec to use instead.
    """
    for name, value in conf.items():
        key = f"submit.conf.{name}"
        if name in ELSEWHERE:
            allowed = f"`{ELSEWHERE[name]}`, which this setting follows"
            raise MillraceError(key, value, allowed, f"Remove it and set `{ELSEWHERE[name]}`.")
        if name.startswith(DYNAMIC_ALLOCATION):
            remedy = "Remove it; `slots` and `executor` bound what the pipeline gets."
            raise MillraceError(
                key, value, "no setting of Spark's own allocation, because Millrace allocates executors", remedy
            )
        if name == CLIENT[0] and value != CLIENT[1]:
            raise MillraceError(key, value, "client, because Millrace starts and watches the driver", "Remove it.")
    _check_task_cpus(conf.get(TASK_CPUS), cores)


def _check_task_cpus(text: str | None, cores: int | None) -> None:
    if text is None:
        return
    if not text.strip().isdecimal() or not int(text):
        raise MillraceError(f"submit.conf.{TASK_CPUS}", text, "a whole number, at least 1", "Correct it.")
    if cores is not None and int(text) > cores:
        remedy = f"Raise `executor.cores` to {int(text)} or more, or no executor can run a task."
        raise MillraceError(f"submit.conf.{TASK_CPUS}", text, f"at most `executor.cores`, {cores}", remedy)
