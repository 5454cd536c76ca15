"""Generate the stack's secrets once; only their owner can read them."""

from __future__ import annotations

import base64
import fcntl
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from millrace.atomic_file import write_atomically
from millrace.environment.home import Home

ADMIN = "admin"


@dataclass(frozen=True, repr=False)
class Secrets:
    """Secrets that only the stack's components may know.

    Args:
        admin_password: Password of the user ``admin`` in Airflow and MLflow.
        jwt_secret: Signs Airflow's tokens; at least 64 bytes, as HS512 requires.
        fernet_key: Encrypts Airflow's connections; 32 bytes, URL-safe base64.
        api_secret_key: Signs Airflow's sessions.
        mlflow_secret_key: Signs MLflow's sessions.
        spark_secret: Shared by all parts of the embedded cluster, and signs tokens for its pages; at least 64 bytes.
    """

    admin_password: str
    jwt_secret: str
    fernet_key: str
    api_secret_key: str
    mlflow_secret_key: str
    spark_secret: str


def generate() -> dict[str, str]:
    """Return new values for every field of :class:`Secrets`."""
    return {
        "admin_password": secrets.token_urlsafe(18),
        "jwt_secret": secrets.token_urlsafe(64),
        "fernet_key": base64.urlsafe_b64encode(os.urandom(32)).decode(),
        "api_secret_key": secrets.token_urlsafe(48),
        "mlflow_secret_key": secrets.token_urlsafe(48),
        "spark_secret": secrets.token_urlsafe(64),
    }


def password_file(home: Home) -> Path:
    """Return the file with the admin password."""
    return home.secrets / "admin_password"


def load(home: Home) -> Secrets:
    """Read the secrets, and generate missing ones.

    Returns:
        The same values at every call.
    """
    home.ensure()
    values = generate()
    with (home.secrets / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in values:
            path = home.secrets / name
            if path.is_file() and (kept := path.read_text(encoding="utf-8").strip()):
                values[name] = kept
                path.chmod(0o600)
            else:
                write_atomically(path, values[name] + "\n")
    return Secrets(**values)
