"""Secrets of drivers that Airflow keeps, as variables or as passwords of connections."""

from __future__ import annotations

from millrace.model.errors import MillraceError
from millrace.model.submit_options import FROM_AIRFLOW


def airflow_secret(source: str) -> str:
    """Return what Airflow keeps; asked in a task, so that Airflow masks it in the task's log.

    Args:
        source: ``airflow:variable/NAME``, or ``airflow:connection/ID`` for its password.

    Raises:
        MillraceError: If there is no such thing, or the connection has no password.
    """
    from airflow.sdk import Connection, Variable
    from airflow.sdk.exceptions import AirflowNotFoundException

    kind, _, name = source.removeprefix(FROM_AIRFLOW).partition("/")
    if kind == "variable":
        value = Variable.get(name, default=None)
    elif kind == "connection":
        try:
            value = Connection.get(name).password
        except AirflowNotFoundException:
            value = None
    else:
        allowed = f"{FROM_AIRFLOW}variable/NAME or {FROM_AIRFLOW}connection/ID"
        raise MillraceError("submit.secrets", source, allowed, "Correct the spec.")
    if not value:
        remedy = f"Set it in Airflow: Admin, {kind.capitalize()}s."
        raise MillraceError("submit.secrets", source, f"a {kind} of Airflow that holds a secret", remedy)
    return str(value)
