"""Options that an installation starts its Spark drivers with, and settings as arguments of spark-submit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class EmbeddedCluster:
    """The standalone cluster of this installation; its executors see the same paths as the drivers.

    Attributes:
        master: Address, ``spark://host:port``.
        properties: File of Spark settings that log a driver in, readable by its owner only; None without a login.
    """

    master: str
    properties: Path | None = None


FROM_AIRFLOW = "airflow:"
"""Prefix of a secret's source that is not a file: an Airflow variable, or the password of a connection."""
SecretOf = Callable[[str], str]


@dataclass(frozen=True)
class SubmitOptions:
    """Options that every driver of this installation is started with.

    Attributes:
        spark_submit: The program.
        jars: The Delta jars.
        packages: Maven coordinates that every driver gets, such as Delta's for another version of Spark.
        has_delta: Whether there is a Delta for the drivers' version of Spark.
        conf: Spark settings: class path, class archive, addresses.
        python: Interpreter of driver and workers, unless the pipeline names one.
        env: Environment variables on top of the caller's.
        cluster: The cluster for pipelines with the master ``embedded``; None if there is none.
        connectors: Jars of the connectors that are set up, by their names in specs.
        secret_of: Returns the secret that Airflow keeps for a source of :data:`FROM_AIRFLOW`; None without Airflow.
    """

    spark_submit: Path
    jars: tuple[Path, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    python: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cluster: EmbeddedCluster | None = None
    connectors: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    secret_of: SecretOf | None = None
    packages: tuple[str, ...] = ()
    has_delta: bool = True


def conf_words(conf: Mapping[str, str]) -> list[str]:
    """Return Spark settings as arguments of spark-submit, sorted by key."""
    return [argument for key, value in sorted(conf.items()) for argument in ("--conf", f"{key}={value}")]
