"""What every Spark program of this repository is started with: the same interpreter, jars and class archive.

A JVM uses the class archive only if its class path equals the one the archive was made with, so all programs
take it from here.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from millrace.environment.home import Home
from millrace.environment.jars import CONNECTORS, DELTA, SHARE, VENV
from millrace.model.errors import MillraceError
from millrace.model.submit_options import EmbeddedCluster, SubmitOptions
from millrace.places import IN_CHECKOUT, REPO, SOURCES

MASTER_VARIABLE = "MILLRACE_SPARK_MASTER"
"""Variable with the embedded cluster's address, for processes that start drivers."""
LOGIN_VARIABLE = "MILLRACE_SPARK_LOGIN"
"""Variable with the path of the cluster's login file, if it is not in the home."""

ARCHIVE = SHARE / "spark.jsa"
# the JVM ignores an archive that does not fit; a warning in every driver's log would not help
QUIET_ARCHIVE = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def delta_jars() -> list[Path]:
    """Return the five Delta jars in class path order.

    Raises:
        MillraceError: A jar is missing.
    """
    return DELTA.paths()


def python() -> Path:
    """Return the environment's interpreter, which Spark's Python workers need too."""
    return VENV / "bin" / "python" if IN_CHECKOUT else Path(sys.executable)


def spark_home() -> Path:
    """Return Spark's folder inside the environment.

    Raises:
        MillraceError: PySpark is not installed.
    """
    for folder in VENV.glob("lib/python*/site-packages/pyspark"):
        return folder
    if not IN_CHECKOUT and (found := importlib.util.find_spec("pyspark")) and found.origin:
        return Path(found.origin).parent
    raise MillraceError("pyspark", "none", "installed with Millrace", "Run ./millrace setup.")


def spark_submit() -> Path:
    """Return the path of spark-submit inside the environment."""
    return spark_home() / "bin" / "spark-submit"


def environment() -> dict[str, str]:
    """Return the variables that spark-submit and its workers need, on top of the current environment."""
    return {
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": str(python()),
        "PYSPARK_DRIVER_PYTHON": str(python()),
        "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        # a checkout also has the benchmarks' jobs
        "PYTHONPATH": os.pathsep.join(map(str, (SOURCES, REPO) if IN_CHECKOUT else (SOURCES,))),
        # otherwise Spark looks up its own address in the name service and listens there
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def driver_properties(home: Home) -> Path:
    """Return the file that logs a driver in to the embedded cluster: ``MILLRACE_SPARK_LOGIN``, or the home's."""
    return Path(os.environ.get(LOGIN_VARIABLE, home.secrets / "spark_driver.conf"))


def class_path() -> str:
    """Return the Delta jars joined for ``--driver-class-path``."""
    return os.pathsep.join(map(str, delta_jars()))


def driver_submit_conf() -> dict[str, str]:
    """Return the ``--conf`` settings with which every driver is started.

    Returns:
        Class path, and the class archive if set-up could make one. A caller that needs its own Java options
        appends them to ``spark.driver.extraJavaOptions``.
    """
    conf = {
        "spark.driver.extraClassPath": class_path(),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    if ARCHIVE.is_file():
        conf["spark.driver.extraJavaOptions"] = f"-XX:SharedArchiveFile={ARCHIVE} {QUIET_ARCHIVE}"
    return conf


def submit_options() -> SubmitOptions:
    """Return everything that a streaming driver is started with.

    Raises:
        MillraceError: A jar or PySpark is missing.
    """
    # a driver finds this repository without it; on its path, the repository would hide a user's own modules
    env = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    address = os.environ.get(MASTER_VARIABLE)
    login = driver_properties(Home.from_env())
    cluster = EmbeddedCluster(address, login if login.is_file() else None) if address else None
    connectors = {name: tuple(jars.paths()) for name, jars in CONNECTORS.items() if not jars.missing()}
    return SubmitOptions(spark_submit(), tuple(delta_jars()), driver_submit_conf(), python(), env, cluster, connectors)
