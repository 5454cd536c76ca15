"""How a person restarts a driver that Millrace did not start, with the settings of the newest Deployment."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from millrace.model.attached_driver import DRIVER_MEMORY, EXECUTOR_CORES, EXECUTOR_MEMORY, AttachedDriver

PLACES = {
    EXECUTOR_MEMORY: ("executor", "memory"),
    EXECUTOR_CORES: ("executor", "cores"),
    DRIVER_MEMORY: ("driver", "memory"),
}
"""Keys of a SparkApplication's spec by the setting that they become; others are under ``sparkConf``."""


def restart_command(driver: AttachedDriver, settings: Mapping[str, str]) -> str:
    """Return the command that restarts a driver with other settings, or the options of its spark-submit.

    Args:
        driver: The driver.
        settings: Settings to change, by name.
    """
    if driver.spark_application:
        return _patch(driver.spark_application, settings)
    return "spark-submit " + " ".join(f"--conf {shlex.quote(f'{name}={value}')}" for name, value in settings.items())


def _patch(application: str, settings: Mapping[str, str]) -> str:
    namespace, _, name = application.rpartition("/")
    spec: dict[str, dict[str, object]] = {}
    for setting, value in settings.items():
        section, key = PLACES.get(setting, ("sparkConf", setting))
        spec.setdefault(section, {})[key] = int(value) if setting == EXECUTOR_CORES else value
    patch = json.dumps({"spec": spec})
    where = f" -n {shlex.quote(namespace)}" if namespace else ""
    return f"kubectl patch sparkapplication {shlex.quote(name)}{where} --type merge -p {shlex.quote(patch)}"
