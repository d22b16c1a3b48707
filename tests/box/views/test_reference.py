"""The reference of the message box names all that can be called."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

import seriatim as sq
from seriatim.box.turns.delivery import Delivery
from seriatim.pipeline.types.message import Part, Received

PAGE = (Path(__file__).parents[3] / "docs/reference/message-box.md").read_text(encoding="utf-8")
TEXT = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
WORDS = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", TEXT))))


@pytest.mark.parametrize("kind", [sq.MessageBox, sq.Session, Delivery])
def test_every_method_is_there(kind):
    assert {name for name in vars(kind) if not name.startswith("_")} - WORDS == set()


@pytest.mark.parametrize("kind", [Received, Part])
def test_every_field_is_there(kind):
    assert {field.name for field in fields(kind)} - WORDS == set()


@pytest.mark.parametrize("call", [sq.MessageBox.open, sq.Session.publish, sq.Session.receive, sq.Session.dispense])
def test_every_argument_is_there(call):
    assert inspect.signature(call).parameters.keys() - {"self", "cls"} - WORDS == set()
