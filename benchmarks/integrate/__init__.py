"""Placement before slots, live: the integrated framework against deciding on slots first."""
