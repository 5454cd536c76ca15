"""How many rows arrive and wait at a query's sources: one class per kind of source."""
