"""What a running app reports of itself, measured inside Spark from an unchanged script."""
