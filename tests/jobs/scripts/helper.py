"""A module next to a user's script: executors must find it too."""


def twice(value):
    return 2 * value
