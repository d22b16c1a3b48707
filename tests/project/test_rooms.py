"""ARCHITECTURE.md says where is what in the words of the modules themselves."""

import runpy

from tests.project.test_states_page import ROOT

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "rooms.py"))


def test_the_table_is_made_from_the_modules():
    assert SCRIPT["PAGE"].read_text(encoding="utf-8") == SCRIPT["page"](), "run python scripts/rooms.py"


def test_each_module_says_in_a_line_what_it_is():
    assert [name for name, line in SCRIPT["modules"]() if not line.rstrip(":").strip()] == []
