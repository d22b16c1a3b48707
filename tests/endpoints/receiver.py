"""A server of HTTP on this machine, which answers as it is told and remembers what it was sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Receiver:
    """What it got, and the answers that it still has to give: status and headers; without any: 204."""

    url: str = ""
    got: list[tuple[Mapping[str, str], bytes]] = field(default_factory=list)
    answers: list[tuple[int, Mapping[str, str]]] = field(default_factory=list)
    said: bytes = b"that's the answer"
    paths: list[str] = field(default_factory=list)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """It serves while the block runs."""
    receiver, lock = Receiver(), threading.Lock()

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with lock:
                receiver.paths.append(self.path)
                receiver.got.append((dict(self.headers.items()), body))
                status, headers = receiver.answers.pop(0) if receiver.answers else (204, {})
            if status == 0:  # breaks off
                self.close_connection = True
                return
            said = b"" if status == 204 else receiver.said
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/orders?token=hush"
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
