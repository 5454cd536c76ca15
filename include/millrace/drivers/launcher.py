"""Start the drivers of one pipeline and wait for the started processes, so none becomes a zombie."""

from __future__ import annotations

import shlex
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from millrace.drivers import driver_log, submit
from millrace.drivers.submit import SubmitOptions
from millrace.model.deployment import AppDeployment
from millrace.model.errors import MillraceError
from millrace.model.spec import PipelineSpec
from millrace.model.spec_sections import Submit
from millrace.model.submit_options import FROM_AIRFLOW
from millrace.run_folder.arguments import DriverArguments
from millrace.run_folder.discovery import LiveDriver
from millrace.run_folder.process import ProcessId
from millrace.run_folder.rescale_record import Verb


@dataclass(frozen=True)
class Launcher:
    """Starts drivers.

    Attributes:
        spec: The pipeline.
        options: Settings for every driver of this installation.
        lake: The lake's folder or URI.
        run_dir: Folder of records, locks and generations.
        log_dir: Folder of the drivers' logs.
    """

    spec: PipelineSpec
    options: SubmitOptions
    lake: str
    run_dir: Path
    log_dir: Path
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, app: AppDeployment, name: str, version: int, number: int) -> LiveDriver:
        """Start a driver and return it.

        Args:
            app: The app to run.
            name: Name of the app.
            version: The Deployment version that it belongs to.
            number: The driver's generation.

        Raises:
            MillraceError: If the script or spark-submit does not exist, or cannot be started.
        """
        arguments = self._arguments(app, name, version, number)
        if not arguments.script.is_file():
            raise MillraceError("script", app.script, "an existing file", "Create it or correct the path.")
        log = driver_log.path(self.log_dir, self.spec.name, name, number)
        child = submit.start(self.options, app, arguments, log)
        self._children.append(child)
        with suppress(psutil.NoSuchProcess):
            return LiveDriver(arguments, (ProcessId.of(child.pid),))
        return LiveDriver(arguments, ())  # it has ended already

    def rescale(self, app: AppDeployment, name: str, number: int, verb: Verb, folder: Path) -> tuple[ProcessId, ...]:
        """Start the job that changes the number of an app's state partitions, and return its first process.

        Args:
            app: The app whose settings are used to read the checkpoints.
            name: Name of the app.
            number: Generation of the driver whose log the job writes to.
            verb: What the job does.
            folder: The app's folder under the run folder.

        Raises:
            MillraceError: If spark-submit does not exist, or cannot be started.
        """
        log = driver_log.path(self.log_dir, self.spec.name, name, number)
        child = submit.start_rescale(self.options, app, verb, folder, log)
        self._children.append(child)
        with suppress(psutil.NoSuchProcess):
            return (ProcessId.of(child.pid),)
        return ()  # it has ended already

    def command(self, app: AppDeployment, name: str, version: int, number: int) -> str:
        """Return the shell command that starts such a driver by hand, with its environment in front.

        It names the sources of secrets, never their values.

        Raises:
            MillraceError: If the cluster of the local stack is needed and does not run.
        """
        secrets = Submit.model_validate({**app.submit}).secrets
        env = submit.environment(self.options, replace(app, submit={**app.submit, "secrets": {}}), {})
        words = [f"{key}={value}" for key, value in env.items() if key not in secrets]
        words += submit.command(self.options, app, self._arguments(app, name, version, number))
        # the shell assigns them: env's command line would show them
        assigned = [_assignment(key, source) for key, source in secrets.items()]
        remarks = [_remark(key, source) for key, source in secrets.items() if source.startswith(FROM_AIRFLOW)]
        return "\n".join([*remarks, " ".join([*assigned, "env", shlex.join(words)])])

    def _arguments(self, app: AppDeployment, name: str, version: int, number: int) -> DriverArguments:
        return DriverArguments(
            pipeline=self.spec.name,
            app=name,
            generation=number,
            version=version,
            slots=app.slots,
            epoch=0,
            run_dir=self.run_dir,
            lake=self.lake,
            period_s=self.spec.period_s,
            ready_deadline_s=self.spec.ready_deadline_s,
            stop_deadline_s=self.spec.stop_deadline_s,
            script=submit.script_path(app),
            args=app.args,
            batch_deadline_s=self.spec.batch_deadline_s,
            batch_limits=",".join(f"{option}={value}" for option, value in sorted(app.batch_limits.items())),
        )

    def reap(self) -> None:
        """Forget the processes that have ended."""
        self._children[:] = [child for child in self._children if child.poll() is None]


def _assignment(name: str, source: str) -> str:
    """Return how a shell assigns a secret: from its file, or from the variable that a person has to set."""
    if source.startswith(FROM_AIRFLOW):
        return f'{name}="${{{name}:?}}"'
    return f'{name}="$(cat {shlex.quote(str(Path(source).expanduser()))})"'


def _remark(name: str, source: str) -> str:
    return f"# Set {name} to the value of {' '.join(source.split())} first: a shell cannot read Airflow's secrets."
