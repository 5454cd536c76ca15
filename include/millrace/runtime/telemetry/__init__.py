"""What a running app reports about itself, measured inside Spark from an unchanged script."""
