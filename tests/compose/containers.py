"""Runs docker-compose.yaml without a container engine: each service in Linux namespaces of its own.

A service gets its own processes, host name, network address and file system: a view of this machine's, with the
image's folder and the service's volumes and secrets where docker-compose.yaml puts them. It runs as its user, without
privileges. Anything that is not modelled is refused: an unknown key fails the test.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millrace.pipelines.spec_yaml import parse
from tests.jobs.driving import until

REPO = Path(__file__).resolve().parents[2]
COMPOSE = REPO / "include" / "millrace" / "local" / "stack" / "compose"
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
READ = {"command", "environment", "user", "volumes", "secrets", "healthcheck", "depends_on", "init", "image", "build"}
READ.add("hostname")
ENFORCED = {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
"""How every container runs here."""
LEFT_OUT = {"ports", "restart", "mem_limit", "stop_grace_period"}
"""Only an engine gives these a meaning."""
IN_WORKDIR = ("sh", "-c", 'cd /millrace && exec "$@"', "container")
NETWORK = "10.77.0."
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
"""chroot is root's."""


@dataclass
class Container:
    """A running service.

    Attributes:
        name: The service's name.
        network: A process that only holds the container's network.
        process: Its first process.
    """

    name: str
    network: subprocess.Popen[bytes]
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End it as a power loss would."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.network.kill()
        self.network.wait()


@dataclass
class Containers:
    """The services of one deployment.

    Attributes:
        folder: Contains docker-compose.yaml and the output of compose-env; also the image and what containers write.
        services: Their definitions, as docker-compose understands them.
        secrets: Secret files by name.
        bridge: A process that only holds the network between them.
        running: Containers by name.
    """

    folder: Path
    services: Mapping[str, Mapping[str, Any]]
    secrets: Mapping[str, Path]
    bridge: subprocess.Popen[bytes]
    running: dict[str, Container] = field(default_factory=dict)

    @property
    def image(self) -> Path:
        """The folder /millrace that the Dockerfile creates."""
        return self.folder / "image"

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def build(self) -> dict[str, str]:
        """Carry out the Dockerfile, except for its packages, which this machine has; return its variables."""
        variables: dict[str, str] = {}
        lines = (COMPOSE / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
        for line in filter(None, (line.split("#")[0].strip() for line in lines)):
            instruction, _, rest = line.partition(" ")
            if instruction == "COPY":
                _copy_tree(self.image)
            elif instruction == "ENV":
                words = (word.replace("$PATH", PATH).split("=", 1) for word in shlex.split(rest))
                variables |= dict(words)
            elif instruction == "RUN" and rest.startswith("./millrace setup"):
                command = rest.replace("$CONNECTORS", "")
                # proxies, mirrors and caches are this machine's
                inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "PATH")}
                writable = [(self.image, "/millrace", "rw"), (Path.home(), str(Path.home()), "rw")]
                ran = self._spawn("build", shlex.split(command), {**inherited, **variables}, "0:0", writable)
                assert ran.wait() == 0, self.log("build").read_text()
            elif not rest.startswith(("apt-get", "mkdir -m 1777 /home/millrace")):
                assert instruction in ("FROM", "WORKDIR", "ARG", "USER"), line
        return variables

    def start(self, name: str, variables: Mapping[str, str]) -> Container:
        """Start a service.

        Args:
            name: Its name.
            variables: The image's.
        """
        service = self.services[name]
        assert service.get("hostname", name) == name  # set for every container here
        unknown = service.keys() - READ - ENFORCED.keys() - LEFT_OUT
        assert not unknown, f"{name}: {unknown} is not modelled here"
        assert all(service[key] == value for key, value in ENFORCED.items()), name
        own = {key: str(value) for key, value in service.get("environment", {}).items()}
        binds = [_bind(volume) for volume in service.get("volumes", ())]
        for secret in service.get("secrets", ()):
            target = secret.get("target", f"/run/secrets/{secret['source']}")
            binds.append((self.secrets[secret["source"]], target, "ro"))
        network = self._network(name)
        argv = service.get("command") or POSTGRES_ENTRYPOINT
        env = {"PATH": PATH, **(variables if "build" in service else {}), **own}
        if "build" not in service:
            env["PATH"] = f"{POSTGRES[-1]}:{env['PATH']}"
        process = self._spawn(name, argv, env, service["user"], binds, network, init=service.get("init", False))
        self.running[name] = Container(name, network, process)
        return self.running[name]

    def run(self, name: str, *argv: str, text: str | None = None) -> str:
        """Run a command in a container, as ``docker compose exec`` does, and return its output."""
        container = self.running[name]
        first = _children(container.process.pid)[0]
        environment = Path(f"/proc/{first}/environ").read_bytes().split(b"\0")
        env = dict(variable.decode().split("=", 1) for variable in environment if variable)
        enter = ["nsenter", f"--target={first}", "--all", "--root", *_as_user(self.services[name]["user"])]
        ran = subprocess.run(
            [*enter, *IN_WORKDIR, *argv], env=env, input=text, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{argv}: {ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def healthy(self, name: str) -> bool:
        """Say if a service's own check reports it healthy."""
        container = self.running[name]
        assert container.process.poll() is None, self.log(name).read_text()[-3000:]
        kind, *argv = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD", kind
        with suppress(AssertionError, IndexError, FileNotFoundError):
            self.run(name, *argv)
            return True
        return False

    def up(self, variables: Mapping[str, str]) -> None:
        """Start every service after its dependencies, and wait until all are healthy."""
        waiting = list(self.services)
        while waiting:
            due = [n for n in waiting if self.services[n].get("depends_on", {}).keys() <= self.running.keys()]
            for name in due:
                for other, wanted in self.services[name].get("depends_on", {}).items():
                    self._await(other, wanted["condition"])
                self.start(name, variables)
                waiting.remove(name)
        for name in self.services:
            if "healthcheck" in self.services[name]:
                self._await(name, "service_healthy")

    def _await(self, name: str, condition: str) -> None:
        if condition == "service_completed_successfully":
            code = self.running[name].process.wait()
            assert code == 0, self.log(name).read_text()
        else:
            assert condition == "service_healthy", condition
            until(lambda: self.healthy(name), f"{name} is healthy")

    def _network(self, name: str) -> subprocess.Popen[bytes]:
        """Give a container an address on the deployment's network."""
        number = list(self.services).index(name) + 2
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        until(lambda: _has_own_network(holder.pid), "a network")
        veth = f"ip link add v{number} type veth peer name eth0 netns {holder.pid}; ip link set v{number} master br0 up"
        _in_network(self.bridge.pid, veth)
        own = f"ip link set lo up; ip addr add {NETWORK}{number}/24 dev eth0; ip link set eth0 up"
        _in_network(holder.pid, own)
        return holder

    def _spawn(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        user: str,
        binds: Sequence[tuple[Path, str, str]],
        network: subprocess.Popen[bytes] | None = None,
        *,
        init: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a program on its own root."""
        layers = self.folder / "layers" / name
        shutil.rmtree(layers, ignore_errors=True)
        root = layers / "root"
        root.mkdir(parents=True)
        hosts = "".join(f"{NETWORK}{n} {other}\n" for n, other in enumerate(self.services, 2))
        (layers / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        script = [
            "mount --make-rprivate /",
            *_overlay_lines(Path("/"), layers / "system", root),
            *_overlay_lines(self.image, layers / "image", root / "millrace"),
            *(f"mount --rbind /{folder} {root}/{folder}" for folder in ("dev", "sys")),
            f"mount -t proc proc {root}/proc",
            f"mount -t tmpfs tmpfs {root}/run",
            f"mkdir -m 1777 {root}/home/millrace",
            # everyone can read the image's Python; this machine's may be in a home folder
            *(f"chmod o+x {root}{folder}" for folder in Path(sys.base_prefix).parents if folder != Path("/")),
            *(line for bind in binds for line in _bind_lines(root, *bind)),
            f"hostname {name}",
        ]
        if network is not None:
            script += _bind_lines(root, layers / "hosts", "/etc/hosts", "ro")
        words = ["chroot", str(root), *_as_user(user), *IN_WORKDIR, *(["tini", "--"] if init else []), *argv]
        script.append(f"exec {shlex.join(words)}")
        enter = [] if network is None else ["nsenter", f"--net=/proc/{network.pid}/ns/net"]
        apart = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child=KILL"]
        with self.log(name).open("ab") as log:
            return subprocess.Popen(
                [*enter, *apart, "sh", "-ec", "\n".join(script)],
                env={"PATH": PATH, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


POSTGRES_ENTRYPOINT = [
    "sh",
    "-ec",
    "initdb --username=postgres --pwfile=$POSTGRES_PASSWORD_FILE --auth=scram-sha-256 /var/lib/postgresql/data;"
    "export PGDATA=/var/lib/postgresql/data PGPASSWORD=$(cat $POSTGRES_PASSWORD_FILE);"
    "pg_ctl -w -o '-k /tmp -c listen_addresses=' start;"
    "PGHOST=/tmp sh -e /docker-entrypoint-initdb.d/databases.sh;"
    "pg_ctl -w stop; echo host all all all scram-sha-256 >> $PGDATA/pg_hba.conf; unset PGPASSWORD;"
    "exec postgres -k /tmp -c listen_addresses='*'",
]
"""What the entry point of Postgres's image does."""


@contextmanager
def deployment(folder: Path, definition: str) -> Iterator[Containers]:
    """Yield the services that docker-compose finds in a deployment's folder; end all of them afterwards.

    Args:
        folder: The folder.
        definition: The output of ``docker-compose config`` there.
    """
    found = parse(definition, "docker-compose.yaml")
    secrets = {name: Path(secret["file"]) for name, secret in found["secrets"].items()}
    bridge = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    containers = Containers(folder, found["services"], secrets, bridge)
    try:
        until(lambda: _has_own_network(bridge.pid), "a network")
        _in_network(
            bridge.pid,
            f"ip link set lo up; ip link add br0 type bridge; ip addr add {NETWORK}1/24 dev br0; ip link set br0 up",
        )
        yield containers
    finally:
        for container in reversed(containers.running.values()):
            container.stop()
        bridge.kill()
        bridge.wait()
        shutil.rmtree(containers.image, ignore_errors=True)  # gigabytes, which pytest would keep


def _as_user(user: str) -> list[str]:
    number, _, group = user.partition(":")
    if number == "0":
        return []
    apart = ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    return ["setpriv", f"--reuid={number}", f"--regid={group}", *apart]


def _copy_tree(target: Path) -> None:
    """Copy the image's content: the repository's own files."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (REPO / name).is_file() or (REPO / name).is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPO / name, target / name, follow_symlinks=False)


def _overlay_lines(lower: Path, layers: Path, place: Path) -> list[str]:
    """Return a mount of a folder at a place. Writes there go to an overlay next to it."""
    made = f"mkdir -p {layers}/upper {layers}/work {place}"
    return [made, f"mount -t overlay overlay -o lowerdir={lower},upperdir={layers}/upper,workdir={layers}/work {place}"]


def _bind(volume: str) -> tuple[Path, str, str]:
    source, target, mode = volume.rsplit(":", 2)
    return Path(source), target, mode


def _bind_lines(root: Path, source: Path, target: str, mode: str) -> list[str]:
    place = f"{root}{target}"
    made = f"mkdir -p {place}" if source.is_dir() else f"mkdir -p {Path(place).parent}; touch {place}"
    read_only = [f"mount -o remount,bind,ro {place}"] if mode == "ro" else []
    return [made, f"mount --bind {source} {place}", *read_only]


def _has_own_network(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return not Path(f"/proc/{pid}/ns/net").samefile("/proc/self/ns/net")
    return False


def _in_network(pid: int, script: str) -> None:
    subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "sh", "-ec", script], check=True)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
