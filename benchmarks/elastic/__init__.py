"""Live elasticity against its rivals: the same streams and script, on the same embedded cluster, in one run."""
