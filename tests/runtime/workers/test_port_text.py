"""A port as text, as ``seriatim work --port`` takes it."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.endpoints import FilePort, HttpPort, QueuePort, TablePort
from seriatim.runtime.workers.port_text import port_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("http: {url: 'https://host/${WAY}', headers: {Authorization: 'Bearer ${TOKEN}'}, timeout: 5s, source: shop}", HttpPort),
        ("http: {url: https://host/x, extensions: {customer: customer_id}}", HttpPort),
        ("table: {name: orders, columns: {a: x, b: body}, key: a}", TablePort),
        ("table: {name: s.orders, columns: {a: x}, key: [a], dsn: 'postgresql://u:${TOKEN}@host/x'}", TablePort),
        ("files: {path: ., suffix: .json}", FilePort),
        ("queue: {name: second, ordinal: place}", QueuePort),
    ],
)  # fmt: skip
def test_what_it_stands_for(text, kind):
    assert type(port_of(text, {"TOKEN": "hush", "WAY": "x"})) is kind


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the file is empty"),
        ("http", "a port is a mapping"),
        ("{", "this is not YAML"),
        ("htp: {url: x}", "unknown key 'htp'"),
        ("{queue: {name: a}, files: {path: .}}", "a port needs one of"),
        ("http: {}", "http.url is missing"),
        ("http: https://host", "http must be a mapping"),
        ("http: {url: 'https://${NOWHERE}'}", "the environment variable NOWHERE is not set"),
        ("http: {url: https://host, retries: 5}", "unknown key 'retries' in http"),
        ("http: {url: 'ftp://${TOKEN}'}", "must begin with http:// or https://"),
        ("table: {name: t, columns: {a: x}, dsn: 'postgresql://u:hush@host/x'}", "has a password in it"),
        ("table: {name: t, columns: {a: x}, dsn: 'postgresql://u:${NOPE}@host/x'}", "NOPE is not set"),
        ("table: {name: t}", "writes no columns"),
        ("files: {path: nowhere-at-all}", "folder does not exist"),
        ("queue: {name: 7}", "queue.name must be text"),
    ],
)
def test_what_is_wrong_is_said(text, told):
    with pytest.raises(sq.UsageError) as error:
        port_of(text, {"TOKEN": "hush"})
    assert told in str(error.value)
    assert "hush" not in str(error.value)
