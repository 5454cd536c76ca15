"""Why Flink's autoscaler cannot be run here."""

from __future__ import annotations


class Unavailable(Exception):  # noqa: N818 - an outcome: the benchmark goes on without this peer
    """Something that the peer needs is not on this machine, or cannot be had; the message is one line."""
