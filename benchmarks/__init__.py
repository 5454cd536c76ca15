"""Measured claims: ./millrace bench NAME."""
