"""moto's S3 server on a free port of loopback, with one request at a time.

moto checks ``If-None-Match`` and stores the object in two steps. If two threads write the same key, both may pass the
check, and a commit is lost. S3 itself decides this in one step.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

ONE_REQUEST = threading.Lock()
APP = DomainDispatcherApplication(create_backend_app)


def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Answer a request after the ones before it."""
    with ONE_REQUEST:
        return APP(environ, start_response)


if __name__ == "__main__":
    run_simple("127.0.0.1", 0, answer, threaded=True)
