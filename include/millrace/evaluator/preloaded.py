"""What evaluations import: loaded once, in the process that is forked for each of them."""

import os

from millrace.evaluator.preload import preload

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

preload("great_expectations.expectations", "millrace.wiring")
