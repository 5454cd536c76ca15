"""Drivers as the kernel sees them: their command line, record, app lock and generation."""
