"""The demo: one replayed day, watched, checked against a batch computation, and written up as a report."""
