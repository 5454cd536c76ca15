"""The control cycle as plain functions: collect, gate, decide, guards, arbiter, reconcile, verify."""
