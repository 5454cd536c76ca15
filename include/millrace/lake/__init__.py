"""Delta tables: schemas, append, read, maintenance. The only place that uses ``deltalake``."""
