"""The demo: one replayed day, watched, checked against a batch computation, and told as a report."""
