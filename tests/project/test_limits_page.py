"""The page of limits says what the source enforces, and where."""

from __future__ import annotations

import functools
import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/limits.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\|(.*)\| (.*) \|$", PAGE, re.MULTILINE)
PLACES = [(row, *found) for row, cell in ROWS for found in re.findall(r"`([a-z_/]+\.py):([\w.]+)`", cell)]
#: What the page says without a number of the source: how each line begins, and the test that shows it.
SHOWN = {
    "| Java |": "tests/cli/test_doctor.py::test_says_what_to_do_where_there_is_no_java",
    "| PgBouncer |": "tests/box/connection/test_pgbouncer.py::test_what_needs_a_connection_that_stays_the_same_says_so",
    "| sequence |": "tests/kernel/test_sequence.py::test_what_is_no_whole_number_is_invalid",
    "| over HTTPS: connections of peers that aren't known yet |": "tests/box/links/test_https.py::test_strangers_that_say_nothing_keep_no_box_out",
    "* Over HTTPS no lists of revoked": "tests/box/links/test_https.py::test_a_changed_key_is_refused_until_it_is_accepted",
    "* Over HTTPS a listener needs": "tests/box/links/test_large_bodies.py::test_a_process_that_listens_holds_few_frames",
    "* A message whose properties have": "tests/box/links/test_links.py::test_a_message_with_more_properties_than_travel_is_set_aside",
    "* A large body is in a backend's memory": "tests/box/links/test_large_bodies.py::test_a_large_body_is_held_thrice_at_most_in_backends_and_never_in_the_transmitter",
    "* A monolog has no listener in another box": "tests/dialogs/test_far.py::test_a_monolog_has_no_listener_in_another_box",
    "* `trace` of a message goes on": "tests/box/links/test_trace.py::test_only_what_came_over_the_link_is_told",
    "* `max_waiting` of a link": "tests/box/links/test_links.py::test_publishers_are_refused_where_too_much_waits_for_a_link",
    "* That a far queue groups": "tests/box/links/test_links.py::test_a_queue_that_groups_by_something_else_there_is_warned_of",
    "* The other box takes the name": "tests/box/links/test_trace.py::test_another_version_and_a_box_that_is_away_end_the_trace_here",
    "* Of a pipeline with `claims: journal`": "tests/regions/journal/test_pipelines.py::test_what_is_delivered_never_goes_back_and_counts_for_its_destination_only",
    "* What it has delivered counts": "tests/regions/journal/test_pipelines.py::test_a_group_that_begins_anew_is_delivered_from_its_first_number_again",
    "* A run whose source is away": "tests/regions/journal/test_pipelines.py::test_one_run_has_the_lease_until_it_gives_it_back",
    "* A text with a NUL": "tests/runtime/pipelines/test_lease.py::test_a_table_that_refuses_a_row_makes_its_destination_wait",
    "| drivers on one checkpoint |": "tests/runtime/pipelines/test_checkpoint.py::test_a_killed_run_leaves_no_lock_behind",
    "* **One group is one worker.**": "tests/box/turns/test_scale.py::test_a_long_group_goes_in_order_and_others_go_beside_it",
    "* **A box is one PostgreSQL.**": "tests/box/server/test_moved.py::test_a_standby_can_be_read_and_when_it_is_promoted_the_box_has_a_new_incarnation",
    "* **A message behind a hole": "tests/box/turns/test_scale.py::test_many_that_wait_behind_a_hole_come_when_it_is_filled",
    "| a copy of a whole server": "tests/box/connection/test_identity.py::test_a_copy_of_the_database_is_disabled",
    "| reading a parquet, JDBC": "tests/runtime/pipelines/test_change_log.py::test_changes_leave_by_position_whatever_the_order_of_arrival",
    "| clients in other languages": "tests/box/publishing/test_full.py::test_from_sql_what_is_addressed_to_a_full_queue_is_refused",
}
#: What no test runs, and why.
NOT_RUN = {
    "| Python |": "the package says it to pip",
    "| Spark |": "the package says it to pip",
    "| platform |": "another platform isn't here",
    "| file systems |": "other file systems aren't here",
    "* Over HTTPS there is no proxy": "there is no option for one",
    "* [What is missing in sending]": "that page says it",
    "* A claim reads all numbers": "a cost, which the benchmarks measure",
    "| messages in one call of a function": "Spark's setting",
    "* **A pipeline's state grows": "a cost, which the benchmarks measure",
    "* **A location's tickets": "a cost, which the benchmarks measure",
    "* **A page of groups": "a cost, which the benchmarks measure",
    "* **A change of the definitions": "a cost, which the benchmarks measure",
    "* Commands and functions that list": "each function says its limit",
    "| order over several groups": "there is no option for it",
    "| exactly once into Kafka": "there is no option for it",
    "| a source of the message box": "there is no other",
    "| another database": "there is no other",
}


def lines() -> list[str]:
    """The lines of the page that say something without a number of the source."""
    found = []
    for line in PAGE.splitlines():
        is_head = line.startswith(("| |", "|---"))
        if line.startswith(("* ", "| ")) and not is_head and not re.search(r"`[a-z_/]+\.py:[\w.]+`", line):
            found.append(line)
    return found


def test_every_number_is_that_of_the_source():
    assert len(PLACES) > 25
    for row, file, name in PLACES:
        module = importlib.import_module(f"seriatim.{file.removesuffix('.py').replace('/', '.')}")
        value = functools.reduce(getattr, name.split("."), module)
        assert f"{value:,}" in row, f"{file}: {name} = {value:,}, but the page says {row}"


def test_every_place_is_there():
    for _, cell in ROWS:
        for place in re.findall(r"`([a-z_/]+/(?:\w+\.py)?)(?::\w+)?`", cell):
            assert (ROOT / "src/seriatim" / place).exists() or (ROOT / place).exists(), place


def test_each_other_line_is_shown_by_a_test_or_says_why_not():
    for line in lines():
        begins = [one for one in (*SHOWN, *NOT_RUN) if line.startswith(one)]
        assert len(begins) == 1, f"name a test that shows it: {line}"
    for begin in (*SHOWN, *NOT_RUN):
        assert any(line.startswith(begin) for line in lines()), f"the page says no more: {begin}"
    for test in SHOWN.values():
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), test
