"""A server on loopback that keeps what is posted to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def posted_bodies(wait: threading.Event | None = None) -> Iterator[tuple[str, list[bytes]]]:
    """Give the server's address and the bodies so far; with an event, it hangs until that is set."""
    posted: list[bytes] = []

    class Take(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(self.rfile.read(int(self.headers["Content-Length"])))
            if wait is not None:
                wait.wait()
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Take) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}", posted
        if wait is not None:
            wait.set()
        listening.shutdown()
