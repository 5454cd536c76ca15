"""How long each step takes on the way from telemetry to the first batch on other executors, with the whole stack."""
