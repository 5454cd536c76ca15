"""Completes the XML API of a server of Google Cloud Storage.

fake-gcs-server takes uploads and deletions by Google's JSON API only. It lists all names whatever ``start-after`` says,
and overwrites what must not exist yet. deltalake uses the XML API.
It is a process of its own: deltalake does not let other threads run while it waits for an answer.
"""

from __future__ import annotations

import re
import sys
import threading
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.parse import parse_qs, quote, unquote, urlsplit
from urllib.request import Request, urlopen

ONLY_IF = "x-goog-if-generation-match"
LIST = b'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult>'
ENTRY = re.compile(r"<Contents><Key>(.*?)</Key>.*?</Contents>")


class _Translator(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behind: str) -> None:
        self.behind = behind
        super().__init__(("127.0.0.1", 0), _Handler)
        self.parts: dict[str, dict[int, bytes]] = {}
        self.writing = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that hang up."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Translator

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        after = self._named()[2].get("start-after", "")
        self._pass_on(self.path, self.command, lambda body: ENTRY.sub(lambda e: e[0] if e[1] > after else "", body))

    do_HEAD = do_GET  # noqa: N815

    def do_DELETE(self) -> None:
        bucket, name, _ = self._named()
        self._pass_on(f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}", "DELETE")

    def do_PUT(self) -> None:
        bucket, name, query = self._named()
        body = self._body()
        if "uploadId" in query:
            self.server.parts[query["uploadId"]][int(query["partNumber"])] = body
            self._answer(200, b"", {"ETag": f'"{query["partNumber"]}"'})
            return
        self._upload(bucket, name, body)

    def do_POST(self) -> None:
        bucket, name, query = self._named()
        self._body()
        if "uploadId" in query:
            parts = self.server.parts.pop(query["uploadId"])
            self._upload(bucket, name, b"".join(parts[number] for number in sorted(parts)), completes=True)
            return
        upload = uuid.uuid4().hex
        self.server.parts[upload] = {}
        named = f"<Bucket>{bucket}</Bucket><Key>{name}</Key><UploadId>{upload}</UploadId>"
        self._answer(200, f"<InitiateMultipartUploadResult>{named}</InitiateMultipartUploadResult>".encode())

    def _named(self) -> tuple[str, str, dict[str, str]]:
        parts = urlsplit(self.path)
        bucket, _, name = parts.path.lstrip("/").partition("/")
        query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        return unquote(bucket), unquote(name), query

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _upload(self, bucket: str, name: str, body: bytes, *, completes: bool = False) -> None:
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}"
        with self.server.writing:
            taken = self.headers[ONLY_IF] == "0" and self._ask(f"/{bucket}/{quote(name, safe='')}", "HEAD")[0] == 200
            status = 412 if taken else self._ask(path, "POST", body)[0]
        told = "<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>" if completes else ""
        self._answer(status, told.encode(), {"ETag": '"1"'})

    def _pass_on(self, path: str, method: str, listed: Callable[[str], str] = str) -> None:
        status, headers, body = self._ask(path, method)
        body = listed(body.decode()).encode() if body.startswith(LIST) else body
        kept = ("ETag", "Last-Modified", "Content-Range", "Content-Type", "x-goog-generation")
        told = {name: value for name, value in headers.items() if name.lower() in map(str.lower, kept)}
        self._answer(status, body, told, length=headers.get("Content-Length") if method == "HEAD" else None)

    def _ask(self, path: str, method: str, body: bytes | None = None) -> tuple[int, dict[str, str], bytes]:
        request = Request(f"{self.server.behind}{path}", body, method=method)
        for name in ("Range", "If-Match", "If-None-Match"):
            if self.headers[name] is not None:
                request.add_header(name, self.headers[name])
        try:
            with urlopen(request) as answer:
                return answer.status, dict(answer.headers.items()), answer.read()
        except HTTPError as refused:
            return refused.code, dict(refused.headers.items()), refused.read()

    def _answer(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, length: str | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(body)


if __name__ == "__main__":
    with _Translator(sys.argv[1]) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
