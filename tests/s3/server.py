"""A real S3 server on loopback, with its own lock of programs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import S3FileSystem

from millrace.environment.jars import VENV
from millrace.local.stack.python_env import run_with
from tests.server_log import address_in

LOCK = Path(__file__).with_name("requirements.lock")
PROGRAM = Path(__file__).with_name("serve.py")
NAME = "millrace-test"
ADDRESS = re.compile(r"(http://127.0.0.1:\d+)")


@dataclass(frozen=True)
class Bucket:
    """A bucket.

    Attributes:
        lake: URI of a lake in it.
        environment: Variables that point its client to the bucket.
    """

    lake: str
    environment: dict[str, str]

    def deny(self) -> None:
        """Refuse all clients without a key issued by the server; no one has such a key."""
        self._count_free_requests(0)

    def allow(self) -> None:
        """Undo :meth:`deny`."""
        self._count_free_requests(10**9)

    def keys_of_a_reader(self) -> dict[str, str]:
        """Return keys that may list and read but not write, once clients without keys are refused."""
        may = {"Effect": "Allow", "Action": ["s3:Get*", "s3:List*"], "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [may]})
        self._iam(Action="CreateUser")
        self._iam(Action="PutUserPolicy", PolicyName="read", PolicyDocument=policy)
        told = self._iam(Action="CreateAccessKey")
        found = {name: re.findall(f"<{name}>(.+?)</{name}>", told)[0] for name in ("AccessKeyId", "SecretAccessKey")}
        return {"AWS_ACCESS_KEY_ID": found["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": found["SecretAccessKey"]}

    def _iam(self, **parameters: str) -> str:
        form = urllib.parse.urlencode({"UserName": "reader", "Version": "2010-05-08", **parameters}).encode()
        credential = {"Authorization": "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/iam/aws4_request"}
        request = urllib.request.Request(self.environment["AWS_ENDPOINT_URL"], form, credential)
        with urllib.request.urlopen(request) as answer:
            return str(answer.read(), "utf-8")

    def _count_free_requests(self, count: int) -> None:
        url, kind = f"{self.environment['AWS_ENDPOINT_URL']}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(url, str(count).encode(), kind, method="POST")).close()


@contextmanager
def bucket() -> Iterator[Bucket]:
    """Run a server with an empty bucket."""
    command = [*run_with(VENV, LOCK), "python", str(PROGRAM)]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            address = address_in(log, process, ADDRESS)
            environment = {
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": address,
            }
            client = S3FileSystem(
                access_key="key", secret_key="secret", region="us-east-1", endpoint_override=address,
                allow_bucket_creation=True,
            )  # fmt: skip
            client.create_dir(NAME)
            yield Bucket(f"s3://{NAME}/lake", environment)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
