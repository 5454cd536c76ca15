"""The compose-env command: secrets and folders of the shared deployment (docker-compose.yaml)."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import click

from millrace.atomic_file import write_atomically
from millrace.local.stack.secrets import ADMIN, generate
from millrace.local.stack.spark_cluster import cluster_properties, login_properties, properties_file
from millrace.model.errors import MillraceError
from millrace.places import REPO

OWN = Path("var", "compose")
SECRETS = OWN / "secrets"
FOLDERS = ("home/data", "home/mlflow", "pipelines", "driver_secrets", "postgres", "spark")
"""Folders for the containers' data, and for your specs, scripts and drivers' secrets."""
UNPRIVILEGED = 1000
"""User and group of the containers if root runs this command."""
RECOVERY = Path("/millrace/spark")


@click.command("compose-env")
@click.option("--replace", is_flag=True, help="Replace existing secrets.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=REPO, hidden=True)
def compose_env(replace: bool, folder: Path) -> None:
    """Write .env, and the secret files and folders in var/compose that docker-compose.yaml mounts.

    Keeps other lines of .env, and secrets whose .env was lost. Postgres and Airflow keep the passwords of their first
    start. If you replace secrets, replace var/compose/postgres too.
    """
    env, files = folder / ".env", secret_files(generate())
    lines = env.read_text(encoding="utf-8").splitlines() if env.exists() else []
    own = [line for line in lines if not line.startswith("MILLRACE_USER=")]
    if len(own) < len(lines) and not replace:
        remedy = (
            "Keep it, or add --replace for new secrets. Postgres accepts them only if you also replace "
            "var/compose/postgres, which deletes its data."
        )
        raise MillraceError(".env", str(env), "a file that does not exist yet", remedy)
    missing = [name for name in files if not (folder / SECRETS / name).exists()]
    if missing and len(missing) < len(files) and not replace:
        remedy = "Restore them from a backup, or add --replace for new secrets, with a new var/compose/postgres."
        raise MillraceError(str(folder / SECRETS), f"no {', '.join(missing)}", "all secrets or none", remedy)
    for name in FOLDERS:
        (folder / OWN / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    if replace or missing:
        for name, content in files.items():
            write_atomically(folder / SECRETS / name, content)
    user, group = os.getuid(), os.getgid()
    if user == 0:
        user = group = UNPRIVILEGED
        for path in (folder / OWN, *(folder / OWN).rglob("*")):
            os.chown(path, user, group, follow_symlinks=False)  # jobs may have made links
    (folder / OWN).chmod(0o700)
    write_atomically(env, "\n".join([f"MILLRACE_USER={user}:{group}", *own, ""]))
    click.echo(f"User {ADMIN}, password in {folder / SECRETS / 'admin_password'}. Next: docker compose up --build")


def secret_files(generated: Mapping[str, str]) -> dict[str, str]:
    """Return the content of each secret file, by its name in docker-compose.yaml.

    Args:
        generated: New values of the stack's own secrets.
    """
    password = generated["admin_password"]
    airflow, mlflow = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    of_airflow, of_mlflow = f"postgres:5432:*:airflow:{airflow}\n", f"postgres:5432:*:mlflow:{mlflow}\n"
    users = "database_uri = postgresql+psycopg2://mlflow@postgres/mlflow_auth"
    admin = (f"admin_username = {ADMIN}", f"admin_password = {password}", "auth_cache_ttl_seconds = 300")
    login = ("[mlflow]", f"mlflow_tracking_username = {ADMIN}", f"mlflow_tracking_password = {password}")
    return {
        "postgres_password": secrets.token_urlsafe(24),
        "airflow_database_password": airflow,
        "mlflow_database_password": mlflow,
        "airflow_pgpass": of_airflow,
        "mlflow_pgpass": of_mlflow,
        "upkeep_pgpass": of_airflow + of_mlflow,
        "fernet_key": generated["fernet_key"],
        "jwt_secret": generated["jwt_secret"],
        "api_secret_key": generated["api_secret_key"],
        "admin_password": password + "\n",
        "mlflow_auth": "\n".join(["[mlflow]", "default_permission = READ", users, *admin, ""]),
        "mlflow_session_key": generated["mlflow_secret_key"],
        "mlflow_credentials": "\n".join([*login, ""]),
        "spark_cluster": properties_file(cluster_properties(generated["spark_secret"], RECOVERY)),
        "spark_driver": properties_file(login_properties(generated["spark_secret"])),
    }
