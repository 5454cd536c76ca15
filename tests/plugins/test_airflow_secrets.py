from __future__ import annotations

import pytest

from millrace.model.errors import MillraceError
from millrace.plugins.airflow_secrets import airflow_secret

pytestmark = pytest.mark.airflow


def test_variable_and_password_of_a_connection_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_TOKEN", "s3cret")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", "generic://me:pass%2Fword@host")
    assert airflow_secret("airflow:variable/token") == "s3cret"
    assert airflow_secret("airflow:connection/kafka") == "pass/word"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("airflow:connection/open", "an Airflow connection that contains a secret"),
        ("airflow:connection/nobody", "an Airflow connection that contains a secret"),
        ("airflow:variable/nothing", "an Airflow variable that contains a secret"),
        ("airflow:token", "airflow:variable/NAME or airflow:connection/ID"),
    ],
)
def test_secret_missing_in_airflow_is_named(source: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_OPEN", "generic://host")
    with pytest.raises(MillraceError, match=f"submit.secrets: got '{source}'; allowed: {told}"):
        airflow_secret(source)
