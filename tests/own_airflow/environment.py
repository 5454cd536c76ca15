"""An Airflow as a team has it: a separate environment and project, with Millrace installed into it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from millrace.environment.jars import VENV
from millrace.places import REPO

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "include", "optimizers", "plugins", "dags", "jobs")
LOCAL_BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"
DAG_FILE = """\
from airflow.sdk import DAG, task
from include.greeting import GREETING

with DAG("own", schedule=None):

    @task
    def greet() -> str:
        return GREETING

    greet()
"""


@dataclass(frozen=True)
class OwnAirflow:
    """An environment, a project, and the variables that both start with.

    Attributes:
        venv: The environment.
        home: AIRFLOW_HOME, and also Millrace's home.
        variables: The environment's variables.
    """

    venv: Path
    home: Path
    variables: Mapping[str, str]

    def run(self, program: str, *args: str) -> str:
        """Return the output of a program in the environment; it must succeed."""
        argv = [str(self.venv / "bin" / program), *args]
        ended = subprocess.run(argv, cwd=self.home, env=dict(self.variables), capture_output=True, text=True)
        assert ended.returncode == 0, f"{argv}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
        return ended.stdout


def wheel(folder: Path) -> Path:
    """Build Millrace's wheel from the repository."""
    source = folder / "source"
    for name in SOURCES:
        if (REPO / name).is_dir():
            hidden = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPO / name, source / name, symlinks=True, ignore=hidden)
        else:
            source.mkdir(exist_ok=True)
            shutil.copy2(REPO / name, source / name)
    uv = str(VENV / "bin" / "uv")
    subprocess.run([uv, "build", "--quiet", "--wheel", f"--out-dir={folder / 'dist'}", str(source)], check=True)
    (built,) = (folder / "dist").glob("*.whl")
    return built


def install(folder: Path) -> Path:
    """Create an environment with Millrace and its requirements, in the lock's versions; return its folder."""
    venv, uv, pins = folder / "venv", str(VENV / "bin" / "uv"), folder / "pins.txt"
    # versions only: with the lock's hashes, the wheel would need one, too
    lines = (REPO / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins.write_text("\n".join(line.rstrip(" \\") for line in lines if line[:1].isalnum()), encoding="utf-8")
    subprocess.run([uv, "venv", "--quiet", f"--python={sys.executable}", str(venv)], check=True)
    argv = [uv, "pip", "install", "--quiet", f"--python={venv / 'bin' / 'python'}", f"--constraints={pins}"]
    # as another project would: without the packages that this project's settings leave out
    subprocess.run([*argv, "--no-config", f"{wheel(folder)}[airflow]"], check=True)
    return venv


def own_airflow(folder: Path, specs: Path) -> OwnAirflow:
    """Install Millrace next to a project that has its own ``include``, ``plugins`` and DAG."""
    project, home = folder / "project", folder / "airflow"
    for name, text in {
        "include/__init__.py": "",
        "include/greeting.py": 'GREETING = "from my own include"\n',
        "plugins/__init__.py": "",
        "dags/own.py": DAG_FILE,
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    home.mkdir()
    bundles = [
        {"name": "mine", "classpath": LOCAL_BUNDLE, "kwargs": {"path": str(project / "dags")}},
        {"name": "millrace", "classpath": "millrace.plugins.dag_bundle.MillraceDagBundle", "kwargs": {}},
    ]
    kept = {k: v for k, v in os.environ.items() if k in ("HOME", "JAVA_HOME", "LANG") or k.lower().endswith("_proxy")}
    venv = install(folder)
    variables = {
        **kept,
        "PATH": f"{venv / 'bin'}{os.pathsep}{os.defpath}",
        "PYTHONPATH": str(project),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(project / "plugins"),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        "MILLRACE_PIPELINES": str(specs),
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
    }
    return OwnAirflow(venv, home, variables)
