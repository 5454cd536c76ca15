"""What every Spark program of this repository is started with: the same interpreter, jars and class archive.

The class archive is only used by a JVM whose class path equals the one it was made with, so all of them
take it from here.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from millrace.local.stack.home import Home
from millrace.local.stack.jars import CONNECTORS, DELTA, SHARE, VENV
from millrace.model.errors import MillraceError
from millrace.model.submit_options import EmbeddedCluster, SubmitOptions
from millrace.places import IN_CHECKOUT, REPO, SOURCES

MASTER_VARIABLE = "MILLRACE_SPARK_MASTER"
"""Names the embedded cluster's address to whoever starts drivers."""
LOGIN_VARIABLE = "MILLRACE_SPARK_LOGIN"
"""Names the file that logs them in, where it is not in the home."""

ARCHIVE = SHARE / "spark.jsa"
# an archive that does not fit is ignored by the JVM; saying so in every driver's log helps nobody
QUIET_ARCHIVE = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def delta_jars() -> list[Path]:
    """List the five Delta jars in class path order.

    Raises:
        MillraceError: One is not there.
    """
    return DELTA.paths()


def python() -> Path:
    """Name the environment's interpreter, which Spark's Python workers need too."""
    return VENV / "bin" / "python" if IN_CHECKOUT else Path(sys.executable)


def spark_home() -> Path:
    """Find Spark inside the environment.

    Raises:
        MillraceError: PySpark is not installed.
    """
    for folder in VENV.glob("lib/python*/site-packages/pyspark"):
        return folder
    if not IN_CHECKOUT and (found := importlib.util.find_spec("pyspark")) and found.origin:
        return Path(found.origin).parent
    raise MillraceError("pyspark", "none", "installed beside Millrace", "Run ./millrace setup.")


def spark_submit() -> Path:
    """Find spark-submit inside the environment."""
    return spark_home() / "bin" / "spark-submit"


def environment() -> dict[str, str]:
    """Give the variables that spark-submit and its workers need, on top of the current environment."""
    return {
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": str(python()),
        "PYSPARK_DRIVER_PYTHON": str(python()),
        "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        # a checkout has jobs of benchmarks, too
        "PYTHONPATH": os.pathsep.join(map(str, (SOURCES, REPO) if IN_CHECKOUT else (SOURCES,))),
        # Spark asks the name service for its own address otherwise, and listens there
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def driver_properties(home: Home) -> Path:
    """Name the file that logs a driver in to the embedded cluster: ``MILLRACE_SPARK_LOGIN``, or the home's."""
    return Path(os.environ.get(LOGIN_VARIABLE, home.secrets / "spark_driver.conf"))


def class_path() -> str:
    """Join the Delta jars for ``--driver-class-path``."""
    return os.pathsep.join(map(str, delta_jars()))


def driver_submit_conf() -> dict[str, str]:
    """Give the ``--conf`` settings with which every driver is started.

    Returns:
        Class path, and the class archive where set-up could make one. A caller that needs Java options of its own
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
    """Give everything that a streaming driver is started with.

    Raises:
        MillraceError: A jar or PySpark is not there.
    """
    # a driver finds this repository by itself: on its path it would hide a user's own modules
    env = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    address = os.environ.get(MASTER_VARIABLE)
    login = driver_properties(Home.from_env())
    cluster = EmbeddedCluster(address, login if login.is_file() else None) if address else None
    connectors = {name: tuple(jars.paths()) for name, jars in CONNECTORS.items() if not jars.missing()}
    return SubmitOptions(spark_submit(), tuple(delta_jars()), driver_submit_conf(), python(), env, cluster, connectors)
