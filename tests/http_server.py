"""Servers on loopback: one keeps the bodies posted to it, the other always gives the same answer."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection


@contextmanager
def posted_bodies(wait: threading.Event | None = None) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the server's address and the bodies so far; with an event, it hangs until the event is set."""
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


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Yield the address of a server with this fixed answer.

    It is a separate process because deltalake holds the interpreter's lock while it waits.
    """
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=_answer, args=(theirs, status, body))
    server.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        server.kill()
        server.join()


def _answer(port: Connection, status: int, body: bytes) -> None:
    class Answer(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline()
            if self.raw_requestline and self.parse_request():
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else body)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as listening:
        port.send(listening.server_port)
        listening.serve_forever()
