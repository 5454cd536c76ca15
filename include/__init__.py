"""Former names, in ``include.streaming``. The package is ``millrace``, beside this file."""
