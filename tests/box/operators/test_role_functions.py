"""Every function that a role may call, with extreme values: nothing hangs, breaks the box, or tells what is another's.

The functions are those of the catalogue, so that a new one is among them. Some calls take values at random; others are sound
but for one value. Whether a role does nonsense within its own queue is its own affair: all others have to go on.
"""

from __future__ import annotations

import json
import random
import zlib

import psycopg
import pytest
from psycopg.types.json import set_json_loads

import seriatim as sq
from seriatim.operations import doctor, queues
from seriatim.operations.box_status import box_status
from seriatim.operations.grants import grant
from seriatim.pipeline.files.json_form import to_json
from tests.box.roles import dsn_of, make, rows
from tests.databases import box_with
from tests.soak import seed, sized

#: In everything that is another's: in no answer, and in no error.
MARK = "T0PS3CRET"
FUNCTIONS = """
    SELECT function.oid::regproc::text, coalesce(function.proargnames, '{}'), coalesce(function.proargmodes::text[], '{}'),
        ARRAY(SELECT replace(kind::regtype::text, 'anyarray', 'text[]') FROM unnest(function.proargtypes::oid[]) AS kind)
    FROM pg_proc AS function
    WHERE function.pronamespace = %s::regnamespace AND function.prorettype <> 'trigger'::regtype
        AND has_function_privilege(%s, function.oid, 'EXECUTE')
    ORDER BY function.oid::regprocedure::text
"""
ROLES = {
    "nobody": {},
    "publisher": {"publish": ["mine"]},
    "receiver": {"receive": ["mine"]},
    "subscriber": {"subscribe": ["mine"], "types": ["order"]},
    "dispenser": {"dispense": ["till"]},
    "router": {"route": True},
    "watcher": {"see": ["mine"]},
    "mender": {"operate": ["mine"], "see_bodies": ["mine"]},
}
VALUES = {
    "integer": ["0", "1", "-1", "2147483647", "-2147483648", "7"],
    "bigint": [
        "0",
        "1",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "9007199254740991",
        "4611686018427387904",
    ],
    "text": [
        "",
        "x",
        "c1",
        "mine",
        "vault",
        "box",
        "order",
        "{}",
        "[]",
        "{1}",
        "\\",
        "%",
        "é\u2028'\"",
        "x" * 3000,
        "9" * 400,
    ],
    "boolean": ["true", "false"],
    "jsonb": ["{}", "[]", "null", "0", '"x"', '{"a": {"b": [1]}}', "[" * 3000 + "]" * 3000, "1" + "0" * 6000],
    "json": [
        *('{"dialog": "x"}', '{"dialog": null}', '{"dialog": {"handle": "x"}}', '{"customer": 1}', '{"to": "mine"}'),
        *('{"version": "decimal"}', '{"customer": "timestamp"}', '{"version": "double"}', '{"version": 1e99999}'),
        *('{"location": "far"}', '{"location": 7}', '{"customer": "\\u0000"}', '{"version": 1' + "0" * 200 + "}"),
    ],
    "bytea": ["", "\\xff00", "x" * 3000],
    "interval": ["0", "-1 s", "1 s", "178000000 years", "-178000000 years"],
    "date": ["infinity", "-infinity", "2000-01-01", "5874897-12-31"],
    "timestamp with time zone": [
        "infinity",
        "-infinity",
        "294276-12-31 00:00:00+00",
        "4713-01-01 00:00:00+00 BC",
        "now",
    ],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "int8multirange": ["{}", "{[1,2)}"],
    "xid8": ["0", "18446744073709551615", "1000"],
    "regrole": ["0", "nobody"],
    "smallint": ["0", "-32768", "32767"],
    "numeric": ["0", "NaN", "1e300"],
    "double precision": ["0", "NaN", "Infinity"],
}
PART = ['(a,,"x")', "(,,)", '(a,"",)']
#: A call is cut off here, and then it has hung.
TIMEOUT = "-c statement_timeout=20000 -c lock_timeout=15000 -c client_min_messages=error"


def prepare(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("mine", policy=sq.Standard(), group="customer", sequence="version", max_messages=10_000),
        sq.Queue("vault", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("loose", policy=sq.Unordered(), activation=sq.Activation(port=f"files: {{path: {MARK}}}")),
        sq.Subscription("mine", where="customer LIKE 'c%'", to="mine"),
        sq.Subscription("vault", where="customer LIKE 'v%'", to="vault"),
        sq.Subscription("loose", where="customer LIKE 'v%'", to="loose"),
        sq.Location("till"),
        sq.Service("here", queue="here"),
        sq.Service("far", queue="far"),
    )
    with box.session() as tx:
        tx.publish([order(f"v{MARK}", n, MARK.encode(), message_id=f"{MARK}{n}") for n in (1, 2, 4)])
        handle = tx.begin_dialog("here", "far")
        tx.send(handle, "DEFAULT", MARK.encode())


defined = box_with(prepare)


@pytest.fixture
def box(defined):
    """The box with its roles, which are the server's: they go with the test."""
    make(defined, *ROLES)
    rows(defined, "GRANT USAGE ON SCHEMA test TO PUBLIC")
    for name, rights in ROLES.items():
        if rights:
            grant(defined, name, **rights)
    return defined


def order(customer, version, body=b"", **more):
    return sq.Message(type="order", body=body, context={"customer": customer, "version": version}, **more)


class Calls:
    """Calls of functions by a role, by chance."""

    def __init__(self, box, role):
        self.box = box
        # Of the run's seed, and another for each role.
        self.chance = random.Random(seed() ^ zlib.crc32(role.encode()))
        self.definitions = box.definitions()
        self.queues = [str(self.definitions.queue(name).queue_id) for name in ("mine", "vault", "loose")]
        self.entries = [str(n) for (n,) in rows(box, "SELECT entry_id FROM box.entries")]
        self.arrivals = [str(n) for (n,) in rows(box, "SELECT arrival_id FROM box.spool")]
        self.handles = [str(n) for (n,) in rows(box, "SELECT handle FROM box.endpoints")]

    def value(self, name, kind, length):
        if kind.endswith("[]"):
            if self.chance.random() < 0.05:
                return None
            many = length if self.chance.random() < 0.9 else self.chance.choice((0, 1, 5))
            return [self.value(name, kind[:-2], 0) for _ in range(many)]
        if self.chance.random() < 0.08:
            return None
        likely = self.likely(name, kind)
        if likely and self.chance.random() < 0.7:
            return self.chance.choice(likely)
        return self.chance.choice(PART if kind.endswith("part") else VALUES[kind])

    def likely(self, name, kind):
        """Values that get further than others."""
        name = name or ""
        if "version" in name:
            return [str(self.definitions.version)]
        if "queue" in name and kind.startswith("integer"):
            return self.queues
        if "entr" in name or name.endswith("_ids"):
            return self.entries if "entr" in name else self.arrivals
        if kind == "uuid":
            return self.handles
        if "context" in name or "propert" in name:
            return VALUES["json"]
        return {"integer": ["1", "5"], "bigint": ["1", "2"]}.get(kind)

    def at_random(self, function):
        _, names, kinds = function
        length = self.chance.choice((0, 1, 1, 1, 2))
        return [self.value(name, kind, length) for name, kind in zip(names, kinds, strict=True)]

    def but_one(self, function, sound):
        """A sound call but for one value."""
        _, names, kinds = function
        given = [sound[name] for name in names]
        at = self.chance.randrange(len(given))
        if isinstance(given[at], list) and given[at] and self.chance.random() < 0.8:
            given[at] = [self.value(names[at], kinds[at][:-2], 0), *given[at][1:]]
        else:
            given[at] = self.value(names[at], kinds[at], 1)
        return given

    def sound(self):
        """By the name of a function the arguments of a sound call, each with a name of its own."""
        mine = self.queues[0]
        number = str(self.chance.randrange(10**9))
        one = {
            "known_version": str(self.definitions.version), "of_message": number, "of_type": "order", "at_location": "box",
            "of_content_type": None, "of_context": '{"customer": "c1", "version": 3}', "of_property_types": None,
            "of_body": "x", "visible_at": None, "delay": None, "of_queue": mine, "of_group": "c1", "of_sequence": number,
            "of_size": None, "of_priority": "5", "by_subscriptions": [], "on_way": "true", "by_itself": "false",
            "flushed": "false",
        }  # fmt: skip
        many = {
            "known_version": str(self.definitions.version), "message_ids": [number, f"{number}b"], "types": ["order"] * 2,
            "locations": ["box"] * 2, "content_types": [None] * 2, "contexts": ['{"customer": "c1"}'] * 2,
            "property_types": [None] * 2, "bodies": ["x"] * 2, "destinations": ["1", "1"], "problems": [None] * 2,
            "visible_at": None, "delay": None, "entry_places": ["1", "2"], "entry_queues": [mine] * 2,
            "entry_groups": ["c1"] * 2, "entry_sequences": [number, "5"], "entry_sizes": [None] * 2,
            "entry_priorities": ["5"] * 2, "entry_problems": [None] * 2, "entry_subscriptions": ["{}"] * 2,
            "part_counts": ["1", None], "part_places": ["1"], "part_names": ["a"], "part_content_types": [None],
            "part_bodies": ["x"], "by_itself": "false", "flushed": "false", "on_way": "true",
            "numbered_queues": None, "entry_meanings": [None, "{0,5,0,0}"], "entry_gates": [mine, None], "entry_origins": ["c1", None], "entry_numbers": ["1", None],
        }  # fmt: skip
        publish = {
            "type": "order", "body": "x", "context": '{"customer": "c1", "version": 4}', "message_id": f"{number}c",
            "content_type": None, "location": "box", "parts": None, "delay": None, "visible_at": None, "unique": None,
            "unrouted": None, "delivery": None, "position": None,
        }  # fmt: skip
        name = self.chance.choice(("", "b")) + "z"
        where = self.chance.choice(("TRUE", "customer = 'c1'", "type = 'other'", "this is none (", "nobody = 1"))
        declared = to_json(sq.Subscription(name, where=where, to="mine"))
        subscribe = {"named": name, "to_queue": "mine", "declared": json.dumps(declared), "its_state": "started"}
        return {"take_in": many, "take_in_one": one, "publish": publish, "subscribe": subscribe}


def functions_of(box, role):
    """The functions that a role may call: name, names and types of the arguments."""
    found = []
    for name, names, modes, kinds in rows(box, FUNCTIONS, [box.schema, role]):
        taken = [one for one, mode in zip(names, modes or "i" * len(names), strict=True) if mode in "ib"]
        found.append((name, taken or [""] * len(kinds), kinds))
    return found


def call(connection, function, given):
    """The answer, or the error, as text."""
    name, _, kinds = function
    arguments = ", ".join(f"%s::text{'[]' if kind.endswith('[]') else ''}::{kind}" for kind in kinds)
    try:
        return str(connection.execute(f"SELECT * FROM {name}({arguments})", given).fetchall())
    except psycopg.Error as error:
        hung = isinstance(error, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable)
        if hung or connection.closed or str(error.sqlstate or "").startswith("XX"):
            pytest.fail(f"{name}({given!r:.2000}): {error!r}")
        return str(error)


def check_box(box, number):
    """See that the others go on; what doctor finds, by name."""
    group = f"v{number}"
    box.publish([order(group, n) for n in (2, 1)])
    rows(box, f"SELECT box.publish('order', '', '{{\"customer\": \"{group}\", \"version\": 3}}')")
    box.tick()
    with box.session() as tx:
        assert [one.sequence for one in tx.receive("vault", limit=9, group=group)] == [1, 2, 3]
    with box.session() as tx:
        assert list(tx.receive("loose", limit=9))
    box.define(sq.Subscription("more", where=f"version = {number}", to="loose"))
    box.drop(subscription="more")
    assert queues.queues(box)
    assert box_status(box)
    return {one.name: one for one in doctor.findings_at(box.dsn, box.schema)}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.soak
def test_extreme_values(box, role, figures):
    calls, functions = Calls(box, role), functions_of(box, role)
    assert len(functions) > 40 if ROLES[role] else not functions
    each, done = sized(400, 4, 1), 0
    with psycopg.connect(dsn_of(box, role), autocommit=True, options=TIMEOUT) as connection:
        set_json_loads(bytes, connection)  # what a function gives back is only passed on
        for turn in range(each):
            for function in functions:
                name = function[0].split(".")[1]
                sound = calls.sound().get(name)
                for given in [calls.at_random(function)] + ([calls.but_one(function, sound)] * 3 if sound else []):
                    said = call(connection, function, given)
                    assert MARK not in said, f"{name}({given!r:.2000}): {said[:2000]}"
                    done += 1
            if turn % 20 == 3:
                check_box(box, turn)
    findings = check_box(box, each)
    assert findings["box"].state == "ok"
    # What a role that receives or operates has said of its own queue is its own affair, and named.
    others = [one for one in findings["laws"].found.split("; ") if "queue 'mine'" not in one]
    assert findings["laws"].state == "ok" or (role in ("receiver", "mender") and not others), findings["laws"].found
    if role == "publisher":  # what it has handed in is fit for whoever receives it
        receive_all(box, "mine")
    figures(f"{role}: {done:,} calls of {len(functions)} functions")


def receive_all(box, queue):
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=1000)
            if delivery is None:
                return
            for message in delivery:
                assert message.context is not None
