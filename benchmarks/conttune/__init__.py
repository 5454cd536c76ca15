"""The tuners, measured: ./millrace bench conttune."""
