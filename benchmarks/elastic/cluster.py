"""The embedded cluster as the stack starts it, alone, and its executors' process lifetimes, which are its cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGKILL

import psutil

from millrace.environment import spark_env
from millrace.environment.home import Home
from millrace.local.stack import loopback, secrets, service_processes, spark_cluster
from millrace.local.stack.service import Service
from millrace.model.submit_options import EmbeddedCluster, SubmitOptions
from millrace.run_folder.process import ProcessId

UP_S = 60.0
POLL_S = 0.2
PORTS = ("spark", "spark_master", "spark_worker")
EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class ExecutorLife:
    """An executor's process.

    Attributes:
        process: The process.
        cores: Its cores.
        begin: When the worker started it, seconds since 1970.
        end: When it was seen gone, to within :data:`POLL_S`; None while it runs.
    """

    process: ProcessId
    cores: int
    begin: float
    end: float | None = None


class ExecutorWatch:
    """Records the executors of a worker as they come and go, whoever requested them.

    Args:
        worker: Returns the process id of the worker, their parent; None if there is none.
    """

    def __init__(self, worker: Callable[[], int | None]) -> None:
        self._worker, self._ended = worker, threading.Event()
        self._lives: dict[psutil.Process, ExecutorLife] = {}  # processes are equal if pid and start time are
        self._mutex = threading.Lock()

    def lives(self) -> list[ExecutorLife]:
        """Return all executors seen so far, in order of their start."""
        with self._mutex:
            return sorted(self._lives.values(), key=lambda life: life.begin)

    def alive(self) -> list[ExecutorLife]:
        """Return the running executors."""
        return [life for life in self.lives() if life.end is None]

    @contextmanager
    def watching(self) -> Iterator[ExecutorWatch]:
        """Watch while the context lasts."""
        thread = threading.Thread(target=self._run, name="executor-watch", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    def _run(self) -> None:
        while not self._ended.wait(POLL_S):
            worker = self._worker()
            with suppress(psutil.NoSuchProcess):  # the worker is gone, and its executors with it
                self._note([] if worker is None else psutil.Process(worker).children())

    def _note(self, children: list[psutil.Process]) -> None:
        now, present = time.time(), set()
        for child in children:
            with suppress(psutil.Error, OSError):
                if child.status() != psutil.STATUS_ZOMBIE:
                    present.add(child)
                    if child not in self._lives:
                        self._add(child)
        with self._mutex:
            for process, life in self._lives.items():
                if life.end is None and process not in present:
                    self._lives[process] = replace(life, end=now)

    def _add(self, child: psutil.Process) -> None:
        words = child.cmdline()
        if any(EXECUTOR in word for word in words):
            process, cores = ProcessId.of(child.pid), int(words[words.index("--cores") + 1])
            with self._mutex:
                # psutil's start times are off by up to a second: the kernel reports the boot time in whole seconds
                self._lives[child] = ExecutorLife(process, cores, time.time() - process.age_s())


@dataclass(frozen=True)
class Cluster:
    """A running master and worker.

    Attributes:
        root: Folder for everything.
        address: Master address for submitting drivers.
        secret: Authentication secret of drivers.
        executors: The watch on its executors.
        restart: Kills a service of the cluster and starts it again.
    """

    root: Path
    address: str
    secret: secrets.Secrets
    executors: ExecutorWatch
    restart: Callable[[str], None]

    def home(self, name: str) -> Home:
        """Create a home for one pipeline whose drivers can use the cluster."""
        home = Home(self.root / name)
        home.ensure()
        spark_cluster.write_config(home, self.secret)
        return home

    def submit_options(self, home: Home) -> SubmitOptions:
        """Return the submit options for drivers of a home."""
        return replace(
            spark_env.submit_options(), cluster=EmbeddedCluster(self.address, spark_env.driver_properties(home))
        )


@contextmanager
def embedded_cluster(root: Path) -> Iterator[Cluster]:
    """Run a master and a worker under a folder, and stop them and their executors at the end.

    Raises:
        RuntimeError: If one does not start.
    """
    home = Home(root / "cluster")
    secret = secrets.load(home)
    spark_cluster.write_config(home, secret)
    ports = loopback.choose({name: loopback.USUAL[name] for name in PORTS})
    leaders: dict[str, ProcessId] = {}
    services = {service.name: service for service in spark_cluster.cluster_services(home, secret, ports)}

    def restart(name: str) -> None:
        leaders[name].signal(SIGKILL)
        while leaders[name].alive():
            time.sleep(POLL_S)
        leaders[name] = _start(services[name], home)

    try:
        for name, service in services.items():
            leaders[name] = _start(service, home)
        watch = ExecutorWatch(lambda: leaders["spark-worker"].pid)
        with watch.watching():
            yield Cluster(root, spark_cluster.master_url(ports), secret, watch, restart)
    finally:
        # the worker first: its executors end with it
        service_processes.stop(reversed(leaders.values()), home.root)


def _start(service: Service, home: Home) -> ProcessId:
    log, began = home.logs / f"{service.name}.log", time.time()
    process = service_processes.start(service, home.root, log)
    leader = ProcessId.of(process.pid)
    while service.health is not None and not service.health(began):
        if process.poll() is not None or time.time() - began > UP_S:
            service_processes.stop([leader], home.root)
            raise RuntimeError(f"{service.name} did not come up: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(POLL_S)
    return leader
