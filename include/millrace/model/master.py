"""The address of a Spark master: ``local``, ``embedded``, ``yarn``, ``spark://...`` or ``k8s://...``."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

LOCAL, EMBEDDED, YARN = "local", "embedded", "yarn"
"""The driver itself, the local stack's cluster, and Hadoop's, whose address is in Hadoop's own settings."""
KUBERNETES = "k8s://"
_HOST_AND_PORT = r"(\[[0-9A-Fa-f:.]+\]|[\w.\-]+):\d+"
PATTERN = rf"^({LOCAL}|{EMBEDDED}|{YARN}|spark://{_HOST_AND_PORT}(,{_HOST_AND_PORT})*|{KUBERNETES}\S+)$"
"""A standalone cluster may have several masters, one of which leads; IPv6 addresses are in brackets."""
HTTPS_PORT = 443


def addresses(master: str) -> Iterator[tuple[str, int]]:
    """Yield the hosts and ports of ``spark://a:7077,b:7077`` or ``k8s://https://host:port``; none for other masters."""
    for address in filter(None, master.partition("://")[2].split(",")):
        authority = address.removeprefix("https://").removeprefix("http://").split("/")[0]
        host, _, port = authority.rpartition(":")
        found = (host, int(port)) if host and port.isdigit() else (authority, HTTPS_PORT)
        yield found[0].strip("[]"), found[1]


def is_loopback(master: str) -> bool:
    """Return whether only this machine reaches a master, so its executors run here too.

    Executors on Kubernetes never do, even if the API server is on this machine, as that of kind and minikube is: pods
    have a network and files of their own.
    """
    hosts = [host for host, _ in addresses(master)]
    here = bool(hosts) and all(map(is_loopback_host, hosts))
    return master == LOCAL or (here and not master.startswith(KUBERNETES))


def is_loopback_host(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
