"""Object stores that may contain tables: their URIs and their options.

Two clients open a bucket: deltalake, for tables, and another one for single files (:mod:`millrace.lake.files`). No
client is loaded here, because DAG files check the lake's URI whenever Airflow parses them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from millrace.model.errors import MillraceError

TIMEOUT_S = 10
RETRIES = 3
"""A store that cannot be reached is reported after a few retries: an evaluation must not wait for minutes."""
PATIENCE = {
    "connect_timeout": f"{TIMEOUT_S}s",
    "max_retries": str(RETRIES),
    "retry_timeout": f"{RETRIES * TIMEOUT_S}s",
}
"""The limits of :class:`~millrace.lake.files.StoredFiles`, as deltalake takes them."""
OF_ARROW: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "access_key",
    "AWS_SECRET_ACCESS_KEY": "secret_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_REGION": "region",
    "AWS_ENDPOINT_URL": "endpoint_override",
}
"""Options of S3 with Arrow's names."""
ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"


@dataclass(frozen=True)
class ObjectStore:
    """A kind of object store.

    Attributes:
        name: Its name.
        form: What its URIs look like.
        uri: Pattern of its URIs.
        options: Variables that its own tools read from the environment. If no key is among them, the clients look where
            those tools look: a profile, a web identity, the machine's role.
        endpoint: The option that names another address of the service; None without one.
    """

    name: str
    form: str
    uri: re.Pattern[str]
    options: tuple[str, ...]
    endpoint: str | None

    def check(self, uri: str, options: Mapping[str, str]) -> None:
        """Refuse a URI that cannot be opened.

        Raises:
            MillraceError: If its form is wrong, or the storage account is unknown.
        """
        if not self.uri.fullmatch(uri):
            raise MillraceError("lake", uri, self.form, "Use this form.")
        if uri.startswith("az://") and ACCOUNT not in options:
            remedy = "Set it, or name the account in the URI: abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX."
            raise MillraceError(ACCOUNT, None, f"the storage account of {uri}", remedy)

    def storage_options(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return options in the form that deltalake takes."""
        plain = self.endpoint is not None and options.get(self.endpoint, "").startswith("http://")
        of_client = PATIENCE if self is not S3 else {}
        allow = {"AWS_ALLOW_HTTP" if self is S3 else "allow_http": "true"} if plain else {}
        return {**of_client, **options, **allow}


S3 = ObjectStore(
    "S3",
    "s3://BUCKET/PREFIX",
    re.compile(r"s3://[^/@]+(/.*)?"),
    tuple(OF_ARROW),
    "AWS_ENDPOINT_URL",
)
AZURE = ObjectStore(
    "Azure storage",
    "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX or az://CONTAINER/PREFIX",
    re.compile(r"(abfss://[^/@]+@[^/@.]+\.[^/@]+|az://[^/@]+)(/.*)?"),
    (
        *(ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"),
        *("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"),
        *("AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_USE_EMULATOR"),
    ),
    "AZURE_STORAGE_ENDPOINT",
)
GOOGLE = ObjectStore(
    "Google Cloud Storage",
    "gs://BUCKET/PREFIX",
    re.compile(r"gs://[^/@]+(/.*)?"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY"),
    None,
)
STORES = {"s3": S3, "abfss": AZURE, "az": AZURE, "gs": GOOGLE}
"""Object stores by the scheme of their URIs."""
FORMS = f"a folder, {', '.join(store.form for store in (S3, AZURE))} or {GOOGLE.form}"
OF_SPARK = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}
"""Schemes that Spark's connectors have for the same objects."""


def store_of(uri: str) -> ObjectStore | None:
    """Return the object store of a URI; None for a folder, or another scheme."""
    scheme, separator, _ = uri.partition("://")
    return STORES.get(scheme) if separator else None


def uri_of_spark(uri: str) -> str:
    """Return the URI that names the same objects as one of Spark's."""
    scheme, separator, rest = uri.partition("://")
    return f"{OF_SPARK.get(scheme, scheme)}{separator}{rest}"
