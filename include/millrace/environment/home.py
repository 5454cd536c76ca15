"""Where Millrace keeps its runtime files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from millrace.places import home_folder


@dataclass(frozen=True)
class Home:
    """The folder of one Millrace installation: lake, logs, secrets, databases.

    Args:
        root: Absolute path.
    """

    root: Path

    @classmethod
    def from_env(cls) -> Home:
        """Return the home named by ``MILLRACE_HOME``, or the default: see :func:`millrace.places.home_folder`."""
        return cls(home_folder())

    @property
    def lake(self) -> Path:
        """Telemetry and control tables."""
        return self.root / "lake"

    @property
    def run(self) -> Path:
        """Runtime records: the stack's and the drivers'."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        """One log file per component."""
        return self.root / "logs"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME."""
        return self.root / "airflow"

    @property
    def mlflow(self) -> Path:
        """MLflow's databases and artifacts."""
        return self.root / "mlflow"

    @property
    def reports(self) -> Path:
        """Reports for people, such as the demo's."""
        return self.root / "reports"

    @property
    def data_docs(self) -> Path:
        """Results of the quality gate, by pipeline."""
        return self.root / "gx"

    @property
    def executors(self) -> Path:
        """Working folders and output of the embedded cluster's executors."""
        return self.root / "spark"

    @property
    def secrets(self) -> Path:
        """Generated secrets, readable by the owner only."""
        return self.root / "secrets"

    @property
    def scratch(self) -> Path:
        """Files that may be deleted at any time while the stack is down."""
        return self.root / "scratch"

    def ensure(self) -> None:
        """Create every folder for the owner only. Keeps permissions of data that were opened later."""
        for folder in (self.lake, self.run, self.logs, self.reports, self.scratch, self.data_docs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.secrets, self.airflow, self.mlflow, self.executors):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
