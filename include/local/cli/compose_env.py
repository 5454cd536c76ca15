"""The command compose-env: the secrets of the shared deployment (docker-compose.yaml)."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import click

from include.atomic_file import write_atomically
from include.local.stack.home import REPO
from include.local.stack.secrets import ADMIN, generate
from include.model.errors import MillraceError


@click.command("compose-env")
@click.option("--replace", is_flag=True, help="Replace secrets that exist already.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=REPO, hidden=True)
def compose_env(replace: bool, folder: Path) -> None:
    """Write .env and the secret files that docker-compose.yaml reads.

    Postgres keeps the password it was first started with: replace the secrets of a deployment only with its volumes.
    """
    env = folder / ".env"
    if env.exists() and not replace:
        raise MillraceError(".env", str(env), "no file yet", "Use it as it is, or give --replace.")
    generated, postgres = generate(), secrets.token_urlsafe(24)
    password = generated["admin_password"]
    own = folder / "var" / "compose"
    own.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(own / "airflow_passwords.json", json.dumps({ADMIN: password}))
    users = f"database_uri = postgresql+psycopg2://airflow:{postgres}@postgres/mlflow_auth"
    admin = [f"admin_username = {ADMIN}", f"admin_password = {password}"]
    write_atomically(own / "mlflow_auth.ini", "\n".join(["[mlflow]", "default_permission = READ", users, *admin, ""]))
    values = {
        "MILLRACE_ADMIN_PASSWORD": password,
        "POSTGRES_PASSWORD": postgres,
        "AIRFLOW_FERNET_KEY": generated["fernet_key"],
        "AIRFLOW_JWT_SECRET": generated["jwt_secret"],
        "AIRFLOW_API_SECRET": generated["api_secret_key"],
        "MLFLOW_SECRET_KEY": generated["mlflow_secret_key"],
    }
    write_atomically(env, "".join(f"{name}={value}\n" for name, value in values.items()))
    click.echo(f"Secrets are in {env} and {own}; user {ADMIN}, password MILLRACE_ADMIN_PASSWORD.")
    click.echo("Next: docker compose up --build")
