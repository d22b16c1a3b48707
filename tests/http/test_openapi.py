"""The document of the operations is present and valid, and mutated requests that are made from it get no 500."""

from __future__ import annotations

import json
import random
import string
from decimal import Decimal
from urllib.parse import quote

import httpx
import pytest
from jsonschema import Draft202012Validator
from scripts.openapi_file import FILE

from seriatim.http import reading
from seriatim.http.declared import SCHEMAS
from seriatim.http.openapi import document, openapi
from tests.databases import fresh_box
from tests.http.conftest import fill, serving, with_roles
from tests.http.test_deliveries import order
from tests.soak import seed, sized

NASTY = [
    "",
    "\0",
    "\ud800",
    "..",
    "%2e%2e",
    "a/b",
    "'; DROP TABLE x; --",
    "ü" * 300,
    "x" * 5000,
    "-1",
    "1e400",
    "NaN",
    "null",
    "[]",
    "{}",
]
VALUES = [
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    10**400,
    1.5,
    "",
    "x",
    "\0",
    "ü",
    "30s",
    "-1s",
    [],
    {},
    [[]],
    {"a": {"b": []}},
]


def test_the_file_in_the_documents_is_present():
    assert FILE.read_bytes() == document(), "python -m scripts.openapi_file"


def test_each_schema_is_one_and_each_reference_leads_somewhere():
    found = openapi()
    for schema in found["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    text = document().decode()
    for part in text.split('"$ref": "#/components/schemas/')[1:]:
        assert part.split('"')[0] in found["components"]["schemas"]
    for path, operations in found["paths"].items():
        for operation in operations.values():
            named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert named == {name for _, name, _, _ in string.Formatter().parse(path) if name}


class Requests:
    """Requests that are made from the document, each with mistakes by chance."""

    def __init__(self, chance, ids):
        self.document, self.chance, self.ids = openapi(), chance, ids
        self.operations = [
            (path, method, operation)
            for path, methods in self.document["paths"].items()
            for method, operation in methods.items()
        ]

    def value(self, schema, depth=0):  # noqa: PLR0911, C901 -- a line a kind
        """A value that fits a schema, as a rule."""
        chance = self.chance
        if depth > 6 or chance.random() < 0.07:
            return chance.choice(VALUES)
        if "$ref" in schema:
            return self.value(self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], depth + 1)
        for several in ("oneOf", "anyOf"):
            if several in schema:
                return self.value(chance.choice(schema[several]), depth + 1)
        if "allOf" in schema:
            return self.value(schema["allOf"][0], depth + 1)
        if "const" in schema or "enum" in schema:
            return chance.choice(schema.get("enum", [schema.get("const")]))
        kind = schema.get("type", chance.choice(["string", "object", "integer"]))
        match chance.choice(kind) if isinstance(kind, list) else kind:
            case "object":
                properties = schema.get("properties", {})
                wanted = [name for name in properties if name in schema.get("required", ()) or chance.random() < 0.4]
                found = {name: self.value(properties[name], depth + 1) for name in wanted if chance.random() < 0.97}
                return found | ({self.text(): chance.choice(VALUES)} if chance.random() < 0.1 else {})
            case "array":
                return [self.value(schema["items"], depth + 1) for _ in range(chance.randrange(4))]
            case "integer" | "number":
                return chance.choice([0, 1, 2, 50, schema.get("minimum", 0) - 1, schema.get("maximum", 9) + 1])
            case "boolean":
                return chance.random() < 0.5
        examples = [
            *schema.get("examples", ()),
            "order",
            "few",
            "c1",
            "2030-01-01T00:00:00Z",
            "0s",
            "transient",
            "eA==",
        ]
        return self.text() if chance.random() < 0.2 else chance.choice(examples)

    def text(self):
        return self.chance.choice(NASTY)

    def request(self):
        """The method, path, headers and body of a request."""
        chance = self.chance
        path, method, operation = chance.choice(self.operations)
        path, query, headers = self.parameters(path, operation["parameters"])
        body = b""
        if "requestBody" in operation:
            kind, content = chance.choice(list(operation["requestBody"]["content"].items()))
            found = self.value(content["schema"])
            if isinstance(found, dict) and "wait" in found:
                found["wait"] = 0
            body = json.dumps(found).encode()
            headers.append((b"Content-Type", kind.encode()))
            if chance.random() < 0.2:
                body = self.broken(body)
            if chance.random() < 0.1:
                headers = [(b"ce-specversion", b"1.0"), (b"ce-id", b"1"), (b"ce-type", b"order"), (b"ce-source", b"/s")]
                headers.append(
                    (
                        b"ce-" + chance.choice([b"note", b"Note_", b"data", b"time"]),
                        chance.choice([b"%", b"%ff", b'"', b"x"]),
                    )
                )
        if chance.random() < 0.03:
            method = chance.choice(["PUT", "HEAD", "PATCH", "DELETE", "GET", "POST"])
        return method.upper(), path + ("?" + "&".join(query) if query else ""), headers, body

    def parameters(self, path, declared):
        """The path with its parameters, the query, and the headers."""
        chance, query, headers = self.chance, [], []
        for one in declared:
            name, value = one["name"], str(self.value(one["schema"])).encode(errors="surrogatepass")
            if one["in"] == "path":
                known = {"queue": b"orders", "id": chance.choice(self.ids[-3:]).encode(), "position": b"1"}[name]
                safe = "" if chance.random() < 0.9 else "/."
                path = path.replace(f"{{{name}}}", quote(known if chance.random() < 0.9 else value, safe=safe))
            elif one["in"] == "query" and name != "wait" and chance.random() < 0.2:
                query.append(f"{name}={quote(value)}")
            elif one["in"] == "header" and chance.random() < 0.3:
                headers.append((name.encode(), value.replace(b"\0", b"").replace(b"\n", b"")))
        return path, query, headers

    def broken(self, body):
        """A body with some bytes changed."""
        found = bytearray(body)
        for _ in range(self.chance.randrange(1, 4)):
            at = self.chance.randrange(len(found) + 1)
            match self.chance.randrange(3):
                case 0:
                    del found[at : at + self.chance.randrange(1, 9)]
                case 1:
                    found[at:at] = self.chance.choice(
                        [b"\xff", b"\0", b'"', b"{", b"[" * 5000, b'{"a":1,"a":2}', b"9" * 5000]
                    )
                case _:
                    found[at : at + 1] = bytes([self.chance.randrange(256)])
        return bytes(found)


@pytest.mark.soak
def test_what_the_quick_check_accepts_the_validator_accepts():
    """Each schema with values that fit it, nearly, or not at all."""
    chance = random.Random(seed())
    pieces = [None, True, 0, -1, 1.5, Decimal("1.5"), "", "x", "1.0", "30s", "x" * 2000, [], {}, [{}], {"type": "x"}]
    names = [
        "type",
        "body",
        "context",
        "message_id",
        "specversion",
        "id",
        "source",
        "limit",
        "publish",
        "at",
        "error",
        "extra",
    ]
    for name in SCHEMAS:
        for _ in range(300):
            value = {chance.choice(names): chance.choice(pieces) for _ in range(chance.randrange(6))}
            value["context"] = {"customer": chance.choice(pieces)}
            value = chance.choice(
                [value, [value, value], {"publish": [value]}, {**value, "type": "x"}, chance.choice(pieces)]
            )
            if reading._quick(name)(value):
                assert reading._validator(name).is_valid(value), (name, value)
    assert reading._quick("Message")({"type": "x", "context": {"customer": "x"}})
    assert reading._quick("MessageOrMessages")([{"type": "x"}, {"type": "x", "body": None}])


def test_mutated_requests_get_no_500_and_lose_nothing(databases, figures):
    chance, statuses = random.Random(seed()), {}
    with fresh_box(databases, fill) as box, serving(with_roles(box)) as face:
        ids = ["c1-1"]
        requests, published = Requests(chance, ids), set()
        for at in range(sized(10_000, 1_500, 400)):
            if at % 20 == 0:
                box.publish([order(at + n, f"c{n % 3}") for n in range(9)])
            method, path, headers, body = requests.request()
            try:
                answer = face.client.request(method, path, headers=headers, content=body)
            except (httpx.InvalidURL, httpx.LocalProtocolError):
                continue  # the client sends no such thing
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
            assert answer.status_code < 500 or answer.status_code == 503, (method, path, headers, body, answer.text)
            if answer.status_code == 200 and path.endswith("/deliveries"):
                ids.append(answer.json()["delivery"])
            if answer.status_code == 201:
                told = answer.json()
                published |= {
                    one["id"]
                    for one in told.get("messages", [told])
                    if one["result"] == "new" and one["queues"] == ["orders"]
                }
        figures(f"answers by status: {dict(sorted(statuses.items()))}")
        assert face.get("/healthz").status_code == 200
        with box.access.transaction() as transaction:
            gone = {one for one in published if not _is_known(transaction, one)}
        assert not gone


def _is_known(transaction, message_id):
    return bool(transaction.rows("published_at", message_id=message_id, id_space=None))
