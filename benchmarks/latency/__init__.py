"""How long each step takes from telemetry to the first batch on other executors, with the whole stack."""
