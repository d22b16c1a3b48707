"""The clients in the documents work off a queue, in order, and what they publish exists once."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

import seriatim as sq
from tests.http.test_deliveries import order

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "callers-over-http.md").read_text()
CLIENTS = {"js": ("work.mjs", "node"), "sh": ("work.sh", "sh")}


def client(language):
    """The last piece of a language on the page."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[-1]


@contextmanager
def breaking(address):
    """An address in front of a server. The first answers to each path that ends alike are lost: they are 503, or break off."""
    lost = {verb: ["503", "half"] for verb in ("deliveries", "complete")}

    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name: self.headers[name] for name in ("Authorization", "Content-Type")}
            answer = httpx.post(address + self.path, content=body, headers=headers, timeout=60)
            verb = self.path.rpartition("/")[2]
            how = lost[verb].pop(0) if lost[verb] and answer.content else "whole"
            status, content = (503, b'{"status": 503}') if how == "503" else (answer.status_code, answer.content)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if how == "half" else content)

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
    assert lost == {"deliveries": [], "complete": []}


@pytest.mark.parametrize("language", CLIENTS)
def test_a_client_works_off_a_queue_in_order_and_answers_may_be_lost(face, tmp_path, language):
    name, program = CLIENTS[language]
    for needed in (program, *(["curl", "jq"] if language == "sh" else [])):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} isn't installed")
    face.box.define(
        sq.Queue("done", policy=sq.Fifo(), group="customer_id"), sq.Subscription("done", "type = 'done'", "done")
    )
    from seriatim.operations import grants
    from seriatim.operations.tokens import create_token

    grants.grant(face.box, "app", publish=["done"])
    token = create_token(face.box, "client", role="app", publish=["done"], receive=["orders"], server="srv")
    face.box.publish(
        [order(n, f"c{n % 7}", body=b'{"n": %d}' % n, content_type="application/json") for n in range(150)]
    )
    (tmp_path / name).write_text(client(language))
    with breaking(face.server.address) as address:
        done = subprocess.run(
            [program, tmp_path / name, address, token, "orders"], capture_output=True, text=True, timeout=120, check=False
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {}
    with face.box.session() as tx:
        while (delivery := tx.receive("done", limit=1000)) is not None:
            found.setdefault(delivery.group, []).extend(one.message_id for one in delivery)
    assert found == {f"c{group}": [f"c{group}-{n} done" for n in range(group, 150, 7)] for group in range(7)}


def test_the_javascript_is_as_long_as_the_page_says():
    assert len([line for line in client("js").splitlines() if line.strip()]) <= 45


def test_curl_publishes(face):
    if shutil.which("curl") is None:
        pytest.skip("curl isn't installed")
    first = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)[0]
    done = subprocess.run(
        ["sh", "-c", first], env={"ADDRESS": face.server.address, "TOKEN": face.token, "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert '"order-4711"' in done.stdout
    assert [one.body for one in face.received()] == [b'{"total": 12.50}']
