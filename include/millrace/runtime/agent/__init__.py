"""The driver as its own allocation manager: it adds and removes executors while its queries run."""
