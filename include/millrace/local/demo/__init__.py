"""The demo: replay one day, watch it, check it against a batch computation, and write a report."""
