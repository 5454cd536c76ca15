"""Why Flink's autoscaler cannot run here."""

from __future__ import annotations


class Unavailable(Exception):  # noqa: N818 - an outcome: the benchmark continues without this peer
    """A requirement of the peer is missing on this machine and cannot be obtained; the message is one line."""
