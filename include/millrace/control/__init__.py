"""The control loop: observe, decide, apply."""
