"""Container check: exit with code 0 if a component of the shared deployment is healthy.

Usage: python -m millrace.local.stack.compose.health dag_processor | triggerer | runner
"""

from __future__ import annotations

import sys

from millrace.environment.home import Home
from millrace.local.doctor import stack
from millrace.local.doctor.finding import Level
from millrace.local.stack.loopback import heartbeat

MONITOR = "http://api-server:8080/api/v2/monitor/health"


def healthy(component: str) -> bool:
    """Return whether the runner is working, or whether Airflow has had a heartbeat from another component."""
    if component == "runner":
        return stack.runner(Home.from_env()).level is not Level.PROBLEM
    return heartbeat(MONITOR, component)(0.0)


if __name__ == "__main__":
    sys.exit(not healthy(sys.argv[1]))
