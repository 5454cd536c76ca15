"""The cycle's memory in the lake: one store a control table."""
