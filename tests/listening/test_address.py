"""Addresses to listen at, as text."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.listening.address import host_and_port, is_loopback, listening, url_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        (":9464", ("", 9464)),
        ("[::1]:0", ("::1", 0)),
        ("box.local:80", ("box.local", 80)),
    ],
)
def test_addresses(text, found):
    assert host_and_port(text, "x:1") == found


@pytest.mark.parametrize("text", ["9464", "", "host:", "host:99999", "::1:9464", "host:-1", "host:x", "host:\u0663"])
def test_a_text_that_is_no_address(text):
    with pytest.raises(sq.UsageError, match="cannot listen at"):
        host_and_port(text, "x:1")


def test_which_hosts_only_this_machine_reaches():
    assert [one for one in ("127.0.0.1", "127.8.8.8", "::1", "localhost", "", "0.0.0.0", "::", "box.local") if is_loopback(one)] == [
        "127.0.0.1", "127.8.8.8", "::1", "localhost",
    ]  # fmt: skip


def test_the_address_of_a_free_port():
    with listening("127.0.0.1", 0, "--listen") as listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(sq.EnvironmentProblem, match="Address already in use"):
            listening(*listener.getsockname(), "--listen")
