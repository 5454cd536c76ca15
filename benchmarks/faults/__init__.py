"""Faults injected into a pipeline with live executors, and their outcome."""
