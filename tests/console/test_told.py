"""What the console tells monitors: metrics to those who may look, health to everybody."""

from __future__ import annotations

import pytest

from seriatim.console.who import Actor, Unknown
from tests.console.conftest import Client, fill
from tests.databases import box_with

filled = box_with(fill, scope="module")


def identify(request):
    name = request.headers.get("x-name")
    if name is None:
        raise Unknown("who are you?", 'Basic realm="seriatim"')
    return Actor(name, frozenset({"see"} if name == "ann" else {"mend"}))


def test_metrics_are_those_of_the_box(filled):
    found = Client(filled).request("GET", "/metrics")
    assert found.status_code == 200
    assert found.headers["content-type"].startswith("text/plain; version=")
    assert "seriatim_up 1.0" in found.text
    assert 'seriatim_groups{queue="shop",state="suspended"}' in found.text
    # No group, no message, no error: the nasty key is in the box.
    assert "c1" not in found.text
    assert "4711" not in found.text


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_for_everybody(filled, path):
    found = Client(filled, identify=identify).request("GET", path)
    assert found.status_code == 200
    assert found.headers["cache-control"] == "no-store"


def test_metrics_are_for_those_who_may_look(filled):
    client = Client(filled, identify=identify)
    assert client.request("GET", "/metrics").status_code == 401
    assert client.request("GET", "/metrics", headers={"x-name": "bob"}).status_code == 403
    assert client.request("GET", "/metrics", headers={"x-name": "ann"}).status_code == 200


def test_a_foreign_host_is_told_nothing(filled):
    assert Client(filled, base="http://evil.example").request("GET", "/healthz").status_code == 421
