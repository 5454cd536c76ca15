"""What a running app tells about itself, measured inside Spark from an unchanged script."""
