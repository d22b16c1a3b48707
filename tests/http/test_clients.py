"""The clients in the documents work off a queue, in order, and what they publish exists once."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import seriatim as sq
from tests.http.test_deliveries import order

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "callers-over-http.md").read_text()
CLIENTS = {"js": ("work.mjs", "node"), "sh": ("work.sh", "sh")}


def client(language):
    """The last piece of a language on the page."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[-1]


@pytest.mark.parametrize("language", CLIENTS)
def test_a_client_works_off_a_queue_in_order(face, tmp_path, language):
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
    done = subprocess.run(
        [program, tmp_path / name, face.server.address, token, "orders"], capture_output=True, text=True, timeout=120, check=False
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
