"""The local stack: set-up, secrets, ports, services and their supervisor."""
