"""What is wrong with an installation, check by check."""
