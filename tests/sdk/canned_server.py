"""A real HTTP server in a thread that answers what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass(frozen=True)
class Reply:
    """`chunks` streams; `cut` closes the connection without finishing; `value` is encoded as JSON."""

    status: int = 200
    value: Any = None
    text: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    chunks: Iterable[bytes] | None = None
    cut: bool = False


Answering = Reply | Callable[[Asked], Reply]


class CannedServer:
    """`answer("GET", "/v1/whoami", …)`: one answer for always, several one after the other."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._answers: dict[tuple[str, str], list[Answering]] = defaultdict(list)
        self.url = ""

    def answer(self, method: str, path: str, *answers: Any) -> None:
        """What is not a Reply or a function is the JSON of a 200."""
        known = [one if isinstance(one, Reply) or callable(one) else Reply(value=one) for one in answers]
        self._answers[method, path] = known

    def requests(self, method: str, path: str) -> list[Asked]:
        return [one for one in self.asked if (one.method, one.path) == (method, path)]

    def reply_to(self, asked: Asked) -> Reply:
        answers = self._answers.get((asked.method, asked.path))
        if not answers:
            return problem(404, "not-found", f"no canned answer for {asked.method} {asked.path}")
        chosen = answers.pop(0) if len(answers) > 1 else answers[0]
        return chosen if isinstance(chosen, Reply) else chosen(asked)


def problem(status: int, code: str, detail: str, **more: Any) -> Reply:
    wire = {"type": f"https://windlass.dev/problems/{code}", "title": code, "status": status, "code": code}
    wire |= {"detail": detail, "requestId": "req_1", "reasons": [], "remedy": "", **more}
    return Reply(status, wire, headers={"Content-Type": "application/problem+json"})


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that stops listening is part of what is tested."""


@contextmanager
def serving() -> Iterator[CannedServer]:
    canned = CannedServer()
    server = _Server(("127.0.0.1", 0), _handler(canned))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    canned.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield canned
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(canned: CannedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def answer(self) -> None:
            split = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked = Asked(
                self.command,
                unquote(split.path),
                dict(parse_qsl(split.query)),
                {name.lower(): value for name, value in self.headers.items()},
                body,
                id(self.connection),
            )
            canned.asked.append(asked)
            self.send(canned.reply_to(asked))

        do_GET = do_POST = do_DELETE = answer  # noqa: N815  # http.server's names

        def send(self, reply: Reply) -> None:
            if reply.cut and reply.chunks is None:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.chunks is not None:
                self.stream(reply)
                return
            if reply.text is not None:
                content = reply.text.encode()
            else:
                content = b"" if reply.status == 204 else msgspec.json.encode(reply.value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def stream(self, reply: Reply) -> None:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in reply.chunks or []:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                self.wfile.flush()
            if reply.cut:
                self.close_connection = True
            else:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
