"""Where pods run: each in network and process namespaces of its own, or side by side if this machine permits none."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Protocol


@dataclass(frozen=True)
class Place:
    """Where a pod runs.

    Attributes:
        address: The pod's IP address.
        command: Words to put in front of the container's command.
    """

    address: str
    command: tuple[str, ...]


class Network(Protocol):
    """The pods' network.

    Attributes:
        host: Address of this machine for pods.
    """

    host: str

    def join(self, name: str) -> Place:
        """Make a place for a pod."""

    def leave(self, name: str) -> None:
        """Remove a pod's place."""


class Namespaces:
    """A bridge, and a network namespace per pod; the pod's first process is process 1 of its process namespace."""

    def __init__(self, bridge: str, subnet: str) -> None:
        self.host, self._bridge, self._subnet = f"{subnet}.1", bridge, subnet
        self._numbers, self._names = count(2), dict[str, str]()

    def join(self, name: str) -> Place:
        number = next(self._numbers)
        own, address, veth = f"{self._bridge}-{number}", f"{self._subnet}.{number}", f"{self._bridge}v{number}"
        self._names[name] = own
        _run("ip", "netns", "add", own)
        _run("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", own)
        _run("ip", "link", "set", veth, "master", self._bridge, "up")
        _run("ip", "-n", own, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            _run("ip", "-n", own, "link", "set", device, "up")
        # no pod outlives the kubelet
        bound = ("setpriv", "--pdeathsig", "KILL")
        unshared = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        return Place(address, (*bound, "ip", "netns", "exec", own, *unshared))

    def leave(self, name: str) -> None:
        if own := self._names.pop(name, None):
            _run("ip", "netns", "del", own)  # its end of the pair goes, and the other one with it

    def close(self) -> None:
        """Remove all that is left."""
        for name in list(self._names):
            self.leave(name)
        _run("ip", "link", "del", self._bridge)


class Loopback:
    """An address of the loopback network per pod; pods see each other's processes."""

    host = "127.0.0.1"

    def __init__(self) -> None:
        self._numbers = count(2)

    def join(self, name: str) -> Place:
        return Place(f"127.0.1.{next(self._numbers)}", ())

    def leave(self, name: str) -> None:
        pass


@cache
def may_make_namespaces() -> bool:
    """Return whether this process may make network namespaces and bridges."""
    name = f"mrtry{os.getpid()}"
    try:
        made = [
            _runs("setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--pid", "--fork", "--mount-proc", "true"),
            _runs("ip", "netns", "add", name),
        ]
        made.append(_runs("ip", "link", "add", name, "type", "bridge"))
        _runs("ip", "link", "del", name)
        _runs("ip", "netns", "del", name)
    except OSError:  # none of these programs
        return False
    return all(made)


@contextmanager
def pod_network() -> Iterator[Network]:
    """Make a network for pods, in namespaces if this machine permits them."""
    if not may_make_namespaces():
        yield Loopback()
        return
    bridge = f"mr{os.getpid()}"
    _run("ip", "link", "add", bridge, "type", "bridge")
    network = Namespaces(bridge, _free_subnet())
    try:
        _run("ip", "addr", "add", f"{network.host}/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        yield network
    finally:
        network.close()


def _free_subnet() -> str:
    """Return the first three numbers of a network that no route leads to."""
    taken = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    numbers = random.sample(range(256 * 128), 100)
    subnets = (f"10.{128 + number // 256}.{number % 256}" for number in numbers)
    return next(subnet for subnet in subnets if f"{subnet}." not in taken)


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)


def _runs(*argv: str) -> bool:
    return subprocess.run(argv, check=False, capture_output=True).returncode == 0
