"""Drivers' secrets from Airflow: variables, or passwords of connections."""

from __future__ import annotations

from millrace.model.errors import MillraceError
from millrace.model.submit_options import FROM_AIRFLOW


def airflow_secret(source: str) -> str:
    """Return a secret from Airflow; call it in a task, so Airflow masks the secret in the task's log.

    Args:
        source: ``airflow:variable/NAME``, or ``airflow:connection/ID`` for its password.

    Raises:
        MillraceError: If the variable or connection does not exist, or the connection has no password.
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
        raise MillraceError("submit.secrets", source, f"an Airflow {kind} that contains a secret", remedy)
    return str(value)
