"""A box keeps no secret of an activation, and tells what works on a queue only to those who may receive from it."""

from __future__ import annotations

import json

import pytest

import seriatim as sq
from seriatim.operations import doctor
from seriatim.operations.grants import grant
from seriatim.pipeline.files.json_form import to_json
from tests.box.roles import as_role, in_sql, make, rows
from tests.databases import box_with

SECRET = 'http: {url: "https://shop.example", headers: {Authorization: "Bearer s3cret"}}'
FINE = 'http: {url: "https://shop.example", headers: {Authorization: "Bearer ${TOKEN}"}}'


def queue(port):
    return sq.Queue("hooks", policy=sq.Fifo(), group="message_id", activation=sq.Activation(port=port))


def prepare(box):
    box.define(queue(FINE), sq.Queue("others", policy=sq.Unordered()))


defined = box_with(prepare)


@pytest.fixture
def box(defined):
    """The box with its roles, which are the server's: they go with the test."""
    make(defined, "worker", "reader", "clerk")
    grant(defined, "worker", receive=["hooks"])
    grant(defined, "reader", receive=["others"], subscribe=["others"], types=["t"])
    grant(defined, "clerk", publish=["hooks"])
    return defined


@pytest.mark.parametrize(
    "port", [SECRET, 'http: {url: "https://u:s3cret@shop.example"}', 'table: {name: t, dsn: "host=h password=s3cret"}']
)
def test_an_activation_with_a_secret_is_refused(box, port, tmp_path):
    with pytest.raises(sq.UsageError, match="would be kept in the box, and shown") as caught:
        box.define(queue(port))
    assert "${NAME}" in caught.value.remedy
    assert "s3cret" not in str(caught.value)
    file = tmp_path / "box.yaml"
    file.write_text(f"queues:\n  more:\n    policy: unordered\n    activation:\n      port: {json.dumps(port)}\n")
    with pytest.raises(sq.DeclarationError, match=r"box.yaml:5:\d+.*would be kept in the box") as wrong:
        box.apply(file)
    assert "s3cret" not in str(wrong.value)
    assert box.define(queue(FINE)) == []


def test_what_works_on_a_queue_is_told_to_who_may_receive_from_it(box):
    def seen(name):
        with as_role(box, name) as own:
            return own.definitions().queues["hooks"].declared.activation

    assert seen("worker").port == FINE
    assert seen("reader") is None
    assert seen("clerk") is None
    said = in_sql(box, "reader", "SELECT definition FROM box.definitions() WHERE name = 'hooks'")
    assert "shop.example" not in str(said)
    assert "shop.example" not in str(in_sql(box, "reader", "SELECT * FROM box.activations()"))
    with as_role(box, "clerk") as own:  # it publishes there as before
        own.publish(sq.Message(type="t", context={"to": "hooks"}))


def test_a_secret_from_before_stops_nothing_and_is_named(box):
    rows(box, "UPDATE box.queues SET definition = %s WHERE queue = 'hooks'", [json.dumps(to_json(queue(SECRET)))])
    rows(box, "SELECT box.record_change('by hand')")
    assert box.define(queue(SECRET)) == []  # nothing changes
    box.publish(sq.Message(type="t", context={"to": "hooks"}))
    found = {one.name: one for one in doctor.findings_at(box.dsn, box.schema)}["definitions"]
    assert (found.state, found.found) == ("warning", "queue 'hooks': the header Authorization has a secret in it")
    box.define(queue(FINE))
    assert {one.name: one.state for one in doctor.findings_at(box.dsn, box.schema)}["definitions"] == "ok"
