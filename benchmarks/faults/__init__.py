"""Faults done to a pipeline with live executors, and what became of it."""
