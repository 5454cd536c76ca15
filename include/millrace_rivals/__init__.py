"""Published tuners: the paper's ContTune and its rivals. Millrace loads them by name, like a user's own tuner."""
