"""Measure the tuners: ``./millrace bench conttune``."""
