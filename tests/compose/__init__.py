"""The shared deployment of docker-compose.yaml, run without a container engine."""
