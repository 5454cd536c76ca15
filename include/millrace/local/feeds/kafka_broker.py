"""A Kafka broker on this machine, for the demo and for tests: one node, on loopback, without a login.

Its data is public. Its own jars are downloaded at its first start; the rest of its class path is Spark's jars.
"""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, SIGTERM

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from millrace.environment import spark_env
from millrace.environment.jars import SHARE, JarSet
from millrace.local.stack import java, loopback
from millrace.local.stack.lifecycle import last_line
from millrace.local.stack.setup import ensure_jars
from millrace.model.errors import MillraceError
from millrace.run_folder.process import ProcessId

JARS = JarSet("Kafka broker", Path(__file__).with_name("kafka_broker_jars.sha256"), SHARE / "kafka-broker")
JAVA_OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
UP_S, STOP_S, POLL_S, ANSWER_S = 60.0, 20.0, 0.2, 2.0
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
"""


@dataclass(frozen=True)
class KafkaBroker:
    """A broker and its data.

    Attributes:
        folder: Its folder, for it alone.
        port: Port that it listens on.
    """

    folder: Path
    port: int

    @classmethod
    def make(cls, folder: Path) -> KafkaBroker:
        """Prepare a broker in a new folder; download missing jars.

        Raises:
            MillraceError: If they cannot be fetched, or the folder cannot be prepared.
        """
        ensure_jars(JARS)
        folder.mkdir(parents=True)
        made = cls(folder, loopback.any_free())
        ports = {"port": made.port, "controller": loopback.any_free()}
        values = {"host": loopback.HOST, "data": folder / "data", **ports}
        made._properties.write_text(PROPERTIES.format(**values), encoding="utf-8")
        # with an equals sign, because one id in 64 starts with a dash
        cluster = "--cluster-id=" + urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        made._await_end(made._spawn("kafka.tools.StorageTool", "format", cluster, "-c", made._properties))
        return made

    @property
    def address(self) -> str:
        """Address for the clients' bootstrap servers setting."""
        return f"{loopback.HOST}:{self.port}"

    def start(self) -> ProcessId:
        """Start the broker, detached, and wait until it answers.

        Raises:
            MillraceError: If it ends, or does not answer.
        """
        process = self._spawn("kafka.Kafka", self._properties)
        deadline = time.monotonic() + UP_S
        try:
            while not self.answers():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise self._failed("does not answer")
                time.sleep(POLL_S)
        except BaseException:  # Ctrl-C too: no record names the process yet
            process.kill()
            process.wait()
            raise
        return ProcessId.of(process.pid)

    def answers(self) -> bool:
        """Return whether it answers."""
        client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        try:
            return bool(client.list_topics(timeout=ANSWER_S).brokers)
        except KafkaException:
            return False

    def _spawn(self, program: str, *arguments: str | Path) -> subprocess.Popen[bytes]:
        found, old = java.find()
        if found is None:
            raise java.missing(old)
        path = os.pathsep.join([*map(str, JARS.paths()), f"{spark_env.spark_home() / 'jars'}/*"])
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [found.home / "bin" / "java", *JAVA_OPTIONS, "-cp", path, program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )

    def _await_end(self, process: subprocess.Popen[bytes]) -> None:
        if process.wait(UP_S):
            raise self._failed(f"exit code {process.returncode}")

    def _failed(self, what: str) -> MillraceError:
        told = f"{what}: {last_line(self._log)}"
        return MillraceError("kafka", told, "a running broker", f"Read {self._log}.")

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _log(self) -> Path:
        return self.folder / "broker.log"


def stop(process: ProcessId) -> None:
    """Stop a broker, and kill it if it takes too long."""
    process.signal(SIGTERM)
    deadline = time.monotonic() + STOP_S
    while process.alive():
        if time.monotonic() > deadline:
            process.signal(SIGKILL)
        time.sleep(POLL_S)
