"""What ends a task, in Airflow's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from include.model.errors import MillraceError, NotReady, Settled


@contextmanager
def as_airflow() -> Iterator[None]:
    """Skip the task where there is nothing to do; fail it at once, without retries, on what only a person can mend."""
    try:
        yield
    except (NotReady, Settled) as outcome:
        raise AirflowSkipException(str(outcome)) from outcome
    except MillraceError as problem:
        raise AirflowFailException(str(problem)) from problem
