"""Which texts of ports have a secret in them; none of them is quoted."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.pipeline.text.secret import secret_in

FINE = [
    'http: {url: "https://shop.example/orders", headers: {Authorization: "Bearer ${TOKEN}", X-Kind: order}}',
    'http: {url: "https://user:${PASSWORD}@shop.example/x?key=${KEY}&page=3"}',
    'http: {url: "https://${TOKEN}@shop.example"}',
    'http: {url: "https://medium.example/@user", timeout: 3}',
    'table: {name: t, columns: {token: password}, key: id, dsn: "postgresql://user@host/db?sslmode=require"}',
    'table: {name: t, key: [id], dsn: "host=h user=u password=${PASSWORD}"}',
    'table: {name: t, dsn: "postgresql://user:${PASSWORD}@host/db"}',
    "table: {name: t, dsn: file:/etc/dsn}",
    "queue: {name: next, ordinal: place}",
    "files: {path: out/}",
    "neither YAML nor a port: [",
    "",
]
SECRET = [
    'http: {url: "https://shop.example", headers: {Authorization: "Bearer s3cret"}}',
    'http: {url: "https://shop.example", headers: {authorization: "${A}", Cookie: "id=s3cret"}}',
    'http: {url: "https://shop.example", headers: {X-Api-Key: s3cret}}',
    'http: {url: "https://shop.example", headers: {X-Any: Basic s3cret}}',
    'http: {url: "https://user:s3cret@shop.example"}',
    'http: {url: "https://${USER}:s3cret@shop.example"}',
    'http: {url: "https://user:a${PASSWORD}s3cret@shop.example"}',
    'http: {url: "https://s3cret@shop.example"}',
    'http: {url: "https://s3cret:@shop.example"}',
    'http: {url: "https://shop.example/?page=1&access_token=s3cret"}',
    'http: {url: "https://shop.example/?sig=s3cret"}',
    'http: {url: "https://shop.example", password: s3cret}',
    'http: {url: "https://shop.example", headers: {a: b}, headers: {Authorization: s3cret}}',
    'http: {url: "https://shop.example", headers: {Authorization: $${s3cret}}}',
    'table: {name: t, dsn: "postgresql://user:s3cret@host/db"}',
    'table: {name: t, dsn: "postgresql://host/db?password=s3cret"}',
    'table: {name: t, dsn: "host=h password=s3cret"}',
    "table: {name: t, dsn: \"host=h password = 's3cret two'\"}",
    'headers: {Authorization: "s3cret"',
    "http: &a {headers: {Authorization: s3cret}}\ntable: *a",
]


@pytest.mark.parametrize("port", FINE)
def test_a_port_without_a_secret(port):
    assert secret_in(port) is None


@pytest.mark.parametrize("port", SECRET)
def test_a_secret_is_found_and_not_quoted(port):
    found = secret_in(port)
    assert found
    assert "s3cret" not in found


def test_a_port_in_code_may_have_one():
    """Only what a box keeps may not: the text of a port stays with the process that gives it."""
    assert sq.Activation(port=SECRET[0]).port == SECRET[0]
