"""Targets."""

from __future__ import annotations

from benchmarks.targets import Target

BURST_EVENTS = 2
"""Up once when bursts start, and down once after they end. A policy that flaps scales with each of the nine bursts."""
DIURNAL_EVENTS = 4
"""Up and down on each of two days."""

TARGETS = (
    Target("block_size", "ours", "mismatches", 0),
    Target("ramp6", "ours", "shed_ratio", 0.01),
    Target("burst", "ours", "scale_events", BURST_EVENTS),
    Target("diurnal", "ours", "scale_events", DIURNAL_EVENTS),
)
