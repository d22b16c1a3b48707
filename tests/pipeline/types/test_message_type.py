"""Message types: what can be declared, and what is refused."""

from __future__ import annotations

import pickle

import pytest

import seriatim as sq

XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a" type="xs:int"/>%s</xs:schema>'


def test_what_is_declared_is_kept_in_one_form():
    written = {
        "customer_id": "string",
        "version": {"type": "long"},
        "amount": {"type": "decimal( 12, 2)", "path": "$.a"},
    }
    kind = sq.MessageType("order", {**written, "sku": {"path": "$.lines[0]['sku']"}})
    assert kind.properties == {
        "customer_id": "string",
        "version": "long",
        "amount": {"type": "decimal(12,2)", "path": "$.a"},
        "sku": {"type": "string", "path": "$.lines[0]['sku']"},
    }
    assert kind.types() == {"customer_id": "string", "version": "long", "amount": "decimal(12,2)", "sku": "string"}
    assert sq.MessageType("order", kind.properties) == kind
    assert pickle.loads(pickle.dumps(kind)) == kind


def test_a_property_may_have_several_paths():
    kind = sq.MessageType("change", {"row": {"path": ["$.after.id", "$.before.id"]}, "n": {"path": ["$.n"]}})
    assert kind.properties == {
        "row": {"type": "string", "path": ("$.after.id", "$.before.id")},
        "n": {"type": "string", "path": "$.n"},
    }
    assert [one.paths for one in kind.promotions()] == [("$.after.id", "$.before.id"), ("$.n",)]
    assert sq.MessageType("change", kind.properties) == kind == pickle.loads(pickle.dumps(kind))
    assert sq.MessageType("change", {"row": {"path": ("a/@id", "/b")}}).format() == "xml"


def test_what_was_given_can_be_changed_without_changing_the_type():
    written = {"a": "string"}
    kind = sq.MessageType("order", written)
    written["b"] = "string"
    assert kind.properties == {"a": "string"}


def test_bodies_are_read_as_what_paths_and_validation_say():
    assert sq.MessageType("t").format() is None
    assert sq.MessageType("t", validation="empty").format() is None
    assert sq.MessageType("t", {"a": {"path": "$.a"}}).format() == "json"
    assert sq.MessageType("t", {"a": {"path": "/a/@b"}}).format() == "xml"
    assert sq.MessageType("t", validation="well_formed_xml").format() == "xml"


@pytest.mark.parametrize("name", ["", "a\0", "a" * 129, None, 7, "\ud800"])
def test_a_name_that_is_none(name):
    with pytest.raises(sq.UsageError, match="is not a message type's name"):
        sq.MessageType(name)


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"ticket": "long"}, "'ticket' is the name of a column that seriatim adds"),
        ({"Message_ID": "string"}, "is the name of a column that seriatim adds"),
        ({"to": "string"}, "is the name of a column that seriatim adds"),
        ({"type": "string"}, "'type' is a field of every message"),
        ({"a b": "string"}, "can't be the name of a property"),
        ({"a\0": "string"}, "can't be the name of a property"),
        ({"a" * 129: "string"}, "can't be the name of a property"),
        ({7: "string"}, "can't be the name of a property"),
        ({"a": "string", "A": "string"}, "differ only in capitals"),
        ({"a": "int"}, "'int' is not a type .did you mean long"),
        ({"a": "decimal"}, "write decimal"),
        ({"a": "decimal(39,2)"}, "1 to 38 digits"),
        ({"a": 7}, "7 says nothing about it"),
        ({"a": {}}, "says nothing about it"),
        ({"a": {"type": "long", "paht": "$.a"}}, "says nothing about it"),
        ({"a": {"type": 7}}, "7 is not a type"),
        ({"a": "$.a"}, "a path is given as"),
        ({"a": {"path": "$.a[*]"}}, "is not a path to one value"),
        ({"a": {"path": "/a["}}, "is not XPath"),
        ({"a": {"path": "/p:a"}}, "the prefix 'p' is not in namespaces"),
        ({"a": {"path": "document('http://localhost/')"}}, "is not XPath"),
        ({"a": {"path": ""}}, "is not a path"),
        ({"a": {"path": []}}, "is not a list of different paths"),
        ({"a": {"path": ["$.a", "$.a"]}}, "is not a list of different paths"),
        ({"a": {"path": ["$.a", ""]}}, "'' is not a path"),
        ({"a": {"path": [["$.a"]]}}, "is not a path"),
        ({"a": {"path": ["$.a", "/b"]}}, "a body is one or the other"),
        ({"a": {"path": ["$.a", "$.b[*]"]}}, "is not a path to one value"),
        ({"a": {"path": "/a\0"}}, "is not a path"),
        ({"a": {"path": "$.a"}, "b": {"path": "/b"}}, "a body is one or the other"),
        ([("a", "string")], "properties can't be"),
    ],
)
def test_properties_that_can_not_be(properties, why):
    with pytest.raises(sq.UsageError, match=why) as caught:
        sq.MessageType("order", properties)
    assert caught.value.where == "message type 'order'"


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"validation": "json"}, "validation can't be 'json'"),
        ({"validation": ["none"]}, "validation can't be"),
        ({"validation": "valid_json"}, "needs a schema"),
        ({"validation": "valid_xml", "schema": " "}, "needs a schema"),
        ({"validation": "valid_xml", "schema": b"<a/>"}, "needs a schema"),
        ({"validation": "well_formed_json", "schema": "{}"}, "takes no schema"),
        ({"validation": "empty", "properties": {"a": {"path": "$.a"}}}, "bodies are empty"),
        ({"validation": "well_formed_xml", "properties": {"a": {"path": "$.a"}}}, "write paths for xml"),
        ({"validation": "well_formed_json", "properties": {"a": {"path": "/a"}}}, "write paths for json"),
        ({"validation": "well_formed_json", "namespaces": {"p": "urn:p"}}, "namespaces are for XPath"),
        ({"namespaces": {"1": "urn:p"}}, "'1' is not a prefix"),
        ({"namespaces": {"p": ""}}, "can't stand for"),
        ({"namespaces": "p"}, "namespaces can't be"),
    ],
)
def test_parts_that_do_not_go_together(parts, why):
    with pytest.raises(sq.UsageError, match=why):
        sq.MessageType("order", **parts)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{", "the schema is not JSON"),
        ("[]", "neither an object nor true or false"),
        ('{"type": "text"}', r"the schema is invalid at \$\.type"),
        ('{"pattern": "("}', r"the pattern '\(' can't be used"),
        ('{"$schema": "urn:mine"}', "is not known"),
        ('{"$schema": 7}', "is not known"),
        ('{"$ref": "http://localhost:1/other.json"}', "leads to nothing within it"),
        ('{"$ref": "other.json"}', "leads to nothing within it"),
        ('{"$ref": "file:///etc/passwd"}', "leads to nothing within it"),
        ('{"$id": "http://localhost:1/a", "items": {"anyOf": [{"$ref": "b"}]}}', "leads to nothing within it"),
        ('{"$ref": "#/$defs/none"}', "leads to nothing within it"),
        ('{"$ref": "#/hidden", "hidden": {"$ref": "http://localhost:1/"}}', "leads to nothing within it"),
        ('{"$ref": "#/required/a", "required": ["a"]}', "leads to nothing within it"),
        ('{"$ref": "#/required/0", "required": ["a"]}', "doesn't lead to a schema"),
        ('{"$dynamicRef": "http://localhost:1/#x"}', "leads to nothing within it"),
        ('{"not": ' * 3000 + "{}" + "}" * 3000, "nested too deeply"),
    ],
)
def test_json_schemas_that_are_refused(schema, why):
    with pytest.raises(sq.UsageError, match=why):
        sq.MessageType("order", validation="valid_json", schema=schema)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("<a", "the schema can't be read: not XML"),
        ("\ud800", "half a surrogate pair"),
        ("<a/>", "is not XSD"),
        (XSD % '<xs:element name="b" type="c"/>', "is not XSD"),
        (XSD % '<xs:include schemaLocation="http://localhost:1/a.xsd"/>', "has xs:include in line 1"),
        (XSD % '<xs:include schemaLocation="file:///etc/passwd"/>', "has xs:include"),
        (XSD % '<xs:import namespace="urn:b" schemaLocation="b.xsd"/>', "has xs:import"),
        (XSD % '<xs:redefine schemaLocation="b.xsd"/>', "has xs:redefine"),
        ('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>' + XSD % "&b;", "DOCTYPE"),
    ],
)
def test_xsds_that_are_refused(schema, why):
    with pytest.raises(sq.UsageError, match=why):
        sq.MessageType("order", validation="valid_xml", schema=schema)


def test_schemas_that_are_taken():
    sq.MessageType("t", validation="valid_json", schema="true")
    sq.MessageType("t", validation="valid_json", schema='{"$schema": "http://json-schema.org/draft-07/schema#"}')
    tree = '{"$id": "http://localhost:1/tree", "properties": {"of": {"$ref": "#"}, "a": {"$ref": "tree#/$defs/a"}}, '
    sq.MessageType("t", validation="valid_json", schema=tree + '"$defs": {"a": {"$anchor": "x"}, "b": {"$ref": "#x"}}}')
    sq.MessageType("t", validation="valid_xml", schema='<?xml version="1.0" encoding="ISO-8859-1"?>' + XSD % "")
