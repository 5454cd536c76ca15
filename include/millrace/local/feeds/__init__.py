"""Feeds: programs that fill source tables."""
