"""A step of the user's code over a table: what becomes of each message, who is to blame, how often it is called."""

from __future__ import annotations

import math
import os
import signal
import sys
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.errors import UsageError
from seriatim.pipeline.declared.function import Function
from seriatim.spark.calls.register import Calling, forget_fatal
from seriatim.spark.process.step import OUTPUTS, Step, outputs_type, run_step

RETURNS = {"body": pa.binary(), "margin": pa.int64()}
ELSEWHERE = {"label": pa.string()}  # what another step of the pipeline returns
TICKET = pa.struct([("location", pa.string()), ("epoch", pa.int64()), ("number", pa.int64())])
NAME = Function("steps:apply")


def table_of(ids, *, invalid=(), destinations=None, outputs=None):
    count = len(ids)
    columns = {
        "message_id": pa.array(ids, pa.string()),
        "ticket": pa.array([("crm", 0, n) for n in range(count)], TICKET),
        "body": pa.array([f"body {one}".encode() for one in ids], pa.binary()),
        "_invalid": pa.array(["broken" if one in invalid else None for one in ids], pa.string()),
        "margin": pa.nulls(count, pa.int64()),
        "label": pa.array([f"label {one}" for one in ids], pa.string()),
        OUTPUTS: pa.array(outputs or [None] * count, outputs_type(RETURNS | ELSEWHERE)),
    }
    if destinations is not None:
        columns["destination"] = pa.array(destinations, pa.string())
    return pa.table(columns)


def step_of(**given):
    return Step(NAME, **{"returns": RETURNS, **given})


def answer_of(rows):
    """An answer with a body and a margin for each (id, margin)."""
    ids = pa.array([one for one, _ in rows], pa.string())
    bodies = pa.array([f"{one} {margin}".encode() for one, margin in rows], pa.binary())
    return pa.table({"message_id": ids, "margin": pa.array([margin for _, margin in rows], pa.int64()), "body": bodies})


def follow(plan, calls=None, order=sorted):
    """A function that makes of each message as many rows as `plan` says, or raises for None."""

    def apply(messages):
        ids = messages.column("message_id").to_pylist()
        if calls is not None:
            calls.append(ids)
        bad = [one for one in ids if plan.get(one, 1) is None]
        if bad:
            raise ValueError(f"can't do {bad[0]}")
        rows = [(one, nth) for one in ids for nth in range(plan.get(one, 1))]
        return answer_of(order(rows))

    return apply


def output(one, nth):
    return {"body": f"{one} {nth}".encode(), "margin": nth, "label": f"label {one}"}


PLANS = st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=40)


@given(plan=PLANS, invalid=st.sets(st.integers(0, 39)), backwards=st.booleans())
def test_every_message_is_accounted_for_in_its_place(plan, invalid, backwards):
    ids = [f"m{n:02d}" for n in range(len(plan))]
    chosen = dict(zip(ids, plan, strict=True))
    bad = {f"m{n:02d}" for n in invalid}
    calls = []
    order = (lambda rows: sorted(rows, key=lambda row: (-int(row[0][1:]), row[1]))) if backwards else sorted
    before = table_of(ids, invalid=bad)
    after = run_step(before, step_of(), follow(chosen, calls, order))
    assert after.schema.equals(before.schema)
    assert after.column("message_id").to_pylist() == ids
    assert after.column("ticket").equals(before.column("ticket"))
    assert after.column("label").equals(before.column("label"))
    assert not any(one in bad for call in calls for one in call)
    for row in after.to_pylist():
        one, count = row["message_id"], chosen[row["message_id"]]
        values = {name: row[name] for name in ("body", "margin", "label")}
        if one in bad or count is None or count == 0:
            assert values == {"body": f"body {one}".encode(), "margin": None, "label": f"label {one}"}
        else:
            assert values == output(one, 0)
        if one in bad:
            assert (row["_invalid"], row[OUTPUTS]) == ("broken", None)
        elif count is None:
            assert row["_invalid"].startswith(f"process steps:apply: ValueError: can't do {one}\nTraceback")
            assert row[OUTPUTS] is None
        else:
            assert row["_invalid"] is None
            assert row[OUTPUTS] == (None if count == 1 else [output(one, nth) for nth in range(count)])


@given(count=st.integers(1, 300), failing=st.sets(st.integers(0, 299), max_size=8))
def test_failing_messages_are_found_by_halves(count, failing):
    failing = {n for n in failing if n < count}
    ids = [f"m{n}" for n in range(count)]
    calls = []
    after = run_step(table_of(ids), step_of(), follow({f"m{n}": None for n in failing}, calls))
    found = [n for n, reason in enumerate(after.column("_invalid").to_pylist()) if reason is not None]
    assert found == sorted(failing)
    assert len(calls) <= 1 + 2 * len(failing) * math.ceil(math.log2(max(2, count)))


@given(
    first=st.lists(st.integers(0, 3), max_size=12),
    second=st.dictionaries(st.integers(0, 60), st.sampled_from([None, 0, 1, 2])),
)
def test_a_second_step_gets_a_row_for_each_output(first, second):
    ids = [f"m{n:02d}" for n in range(len(first))]
    between = run_step(table_of(ids), step_of(), follow(dict(zip(ids, first, strict=True))))
    names = [
        one if count == 1 else f"{one}.{nth + 1}" for one, count in zip(ids, first, strict=True) for nth in range(count)
    ]
    plan = {name: second.get(place, 1) for place, name in enumerate(names)}
    seen = []

    def relabel(messages):
        seen.extend(zip(messages["message_id"].to_pylist(), messages["margin"].to_pylist(), strict=True))
        if any(plan[one] is None for one in messages["message_id"].to_pylist()):
            raise ValueError("no")
        rows = [one for one in messages["message_id"].to_pylist() for _ in range(plan[one])]
        return pa.table({"message_id": rows, "label": pa.array([f"of {one}" for one in rows], pa.string())})

    after = run_step(between, step_of(returns=ELSEWHERE), relabel)
    assert {one for one, _ in seen} == set(names)
    assert {margin for one, margin in seen if one.endswith(".3")} <= {2}
    for row, count in zip(after.to_pylist(), first, strict=True):
        one = row["message_id"]
        mine = [(one if count == 1 else f"{one}.{nth + 1}", nth) for nth in range(count)]
        if any(plan[name] is None for name, _ in mine):
            assert row["_invalid"].startswith("process steps:apply: ValueError: no")
            assert row[OUTPUTS] is None
            continue
        made = [{**output(one, nth), "label": f"of {name}"} for name, nth in mine for _ in range(plan[name])]
        if made:
            assert {name: row[name] for name in made[0]} == made[0]
        assert row[OUTPUTS] == (None if len(made) == 1 else made)


def test_only_the_messages_of_its_destination():
    ids = ["a", "b", "a", "c"]
    table = table_of(ids, destinations=["x", "x", "y", None])
    after = run_step(table, step_of(destination="x"), follow({"b": 0}))
    assert after.column("margin").to_pylist() == [0, None, None, None]
    assert after.column(OUTPUTS).to_pylist() == [None, [], None, None]
    nobody = run_step(table, step_of(destination="z"), follow({}))
    assert nobody.equals(table)


def test_messages_of_one_id_take_turns():
    calls = []
    after = run_step(table_of(["a", "b", "a", "a"]), step_of(), follow({"a": 2}, calls))
    assert calls == [["a", "b"], ["a"], ["a"]]
    assert [None if found is None else len(found) for found in after.column(OUTPUTS).to_pylist()] == [2, None, 2, 2]
    failed = run_step(table_of(["a", "b", "a"]), step_of(), follow({"a": None}))
    assert [reason is None for reason in failed.column("_invalid").to_pylist()] == [False, True, False]


def test_nothing_to_do_is_no_call():
    calls = []
    assert run_step(table_of([]), step_of(), follow({}, calls)).num_rows == 0
    run_step(table_of(["a"], invalid={"a"}), step_of(), follow({}, calls))
    run_step(table_of(["a"], outputs=[[]]), step_of(), follow({}, calls))
    assert calls == []


def test_the_function_sees_no_columns_of_ours():
    def apply(messages):
        assert messages.column_names == ["message_id", "ticket", "body", "margin", "label"]
        return answer_of([(one, 1) for one in messages["message_id"].to_pylist()])

    assert run_step(table_of(["a"]), step_of(), apply).column("_invalid").null_count == 1


def test_what_it_returns_besides_is_ignored():
    def apply(messages):
        answer = answer_of([(one, 7) for one in messages["message_id"].to_pylist()])
        return answer.append_column("ticket", pa.nulls(len(answer), TICKET)).append_column(
            "label", [["x"] * len(answer)]
        )

    before = table_of(["a", "b"])
    after = run_step(before, step_of(), apply)
    assert after.column("ticket").equals(before.column("ticket"))
    assert after.column("label").equals(before.column("label"))


def test_what_a_step_adds_may_be_appended_to_what_it_gets():
    def apply(messages):
        assert "margin" not in messages.column_names
        return messages.append_column("margin", pa.array(range(len(messages)), pa.int64()))

    assert run_step(table_of(["a", "b"]), step_of(hidden=frozenset({"margin"})), apply)["margin"].to_pylist() == [0, 1]


def test_a_column_in_another_type_is_what_it_was_in_the_new_one():
    table = table_of(["a", "b", "c"]).append_column("_was_margin", pa.array([1, 2, 3], pa.int64()))
    table = table.set_column(table.column_names.index("margin"), "margin", pa.array(["1", "2", "3"]))
    after = run_step(table, step_of(), follow({"a": 0, "b": None}))
    assert "_was_margin" not in after.column_names
    assert after.column("margin").to_pylist() == [1, 2, 0]
    assert after.column("margin").type == pa.int64()


def answering(answer):
    return run_step(table_of(["a", "b"]), step_of(), lambda _: answer)


GOOD = answer_of([("a", 1), ("b", 2)])


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "returned a NoneType"),
        ({"message_id": ["a"]}, "returned a dict"),
        (GOOD.drop_columns(["margin"]), "returned the column margin not, but message_id, body"),
        (GOOD.drop_columns(["message_id"]), "returned the column message_id not"),
        (GOOD.append_column("body", GOOD["body"]), "returned the column body twice"),
        (GOOD.set_column(1, "margin", pa.array(["1", "2"])), "returned margin as string, which is not safely a int64"),
        (
            GOOD.set_column(0, "message_id", pa.array([1, 2])),
            "returned message_id as int64, which is not safely a string",
        ),
        (answer_of([("a", 1), ("z", 1)]), "returned message_id 'z', which it did not get"),
        (GOOD.set_column(0, "message_id", pa.array(["a", None])), "returned message_id None, which it did not get"),
    ],
)
def test_an_answer_of_the_wrong_shape_is_the_functions_fault(answer, told):
    with pytest.raises(UsageError) as caught:
        answering(answer)
    assert str(caught.value).startswith("process steps:apply: the function ")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def one_of(value, kind, wanted):
    def apply(messages):
        return pa.table({"message_id": messages["message_id"], "x": pa.array([value] * len(messages), kind)})

    table = pa.table(
        {
            "message_id": ["a"],
            "_invalid": pa.nulls(1, pa.string()),
            "x": pa.nulls(1, wanted),
            OUTPUTS: pa.nulls(1, outputs_type({"x": wanted})),
        }
    )
    row = run_step(table, Step(NAME, {"x": wanted}), apply).to_pylist()[0]
    return row["_invalid"] or row["x"]


UTC = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("value", "kind", "wanted", "found"),
    [
        (7, pa.int8(), pa.int64(), 7),
        (7.0, pa.float64(), pa.int64(), 7),
        (7, pa.int64(), pa.float64(), 7.0),
        (0.5, pa.float32(), pa.float64(), 0.5),
        (7, pa.int64(), pa.decimal128(3, 2), Decimal("7.00")),
        (Decimal("1.50"), pa.decimal128(9, 4), pa.decimal128(3, 1), Decimal("1.5")),
        ("é", pa.string(), pa.binary(), "é".encode()),
        ("é", pa.large_string(), pa.string(), "é"),
        ("é", pa.dictionary(pa.int32(), pa.string()), pa.string(), "é"),
        (1_000, pa.timestamp("ns", "UTC"), UTC, pa.scalar(1, UTC).as_py()),
        (2**53 + 1, pa.int64(), pa.float64(), "process steps:apply: the function returned x: Integer value"),
        (0.5, pa.float64(), pa.int64(), "process steps:apply: the function returned x: Float value 0.5"),
        (1_000, pa.int64(), pa.decimal128(3, 2), "process steps:apply: the function returned x: "),
        (Decimal("1.25"), pa.decimal128(3, 2), pa.decimal128(2, 1), "process steps:apply: the function returned x: "),
    ],
)
def test_what_can_stand_for_what(value, kind, wanted, found):
    got = one_of(value, kind, wanted)
    assert got.startswith(found) if isinstance(found, str) and found.startswith("process") else got == found


def test_a_failure_is_told_with_the_users_frames_and_bounded():
    def deep(depth):
        if depth:
            deep(depth - 1)
        raise ValueError("x" * 100_000 + "\ud800")

    reason = run_step(table_of(["a"]), step_of(), lambda _: deep(50)).column("_invalid")[0].as_py()
    first, _, trace = reason.partition("\n")
    assert first.startswith("process steps:apply: ValueError: xxx")
    assert len(first) < 400
    assert len(trace.encode()) < 4_200
    assert "seriatim/spark/" not in trace
    assert "test_step.py" in trace


def test_an_exit_is_one_messages_failure_and_an_interrupt_is_not():
    failed = run_step(table_of(["a"]), step_of(), lambda _: sys.exit("enough"))
    assert failed.column("_invalid")[0].as_py().startswith("process steps:apply: SystemExit: enough")

    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_step(table_of(["a"]), step_of(), interrupted)


def test_on_error_fail_names_function_message_and_exception():
    with pytest.raises(
        UsageError, match=r"^process steps:apply: the function failed at message c: ValueError: can't"
    ) as caught:
        run_step(table_of(["a", "b", "c", "d"]), step_of(on_error="fail"), follow({"c": None, "d": None}))
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_function_that_fails_on_many_but_not_on_few_loses_nothing():
    def few(messages):
        if len(messages) > 3:
            raise MemoryError
        return answer_of([(one, 1) for one in messages["message_id"].to_pylist()])

    ids = [f"m{n}" for n in range(20)]
    after = run_step(table_of(ids), step_of(), few)
    assert pc.sum(after.column("margin")).as_py() == 20
    assert after.column("_invalid").null_count == 20


KILLING = {"m05": signal.SIGKILL, "m11": signal.SIGSEGV}


def kill(messages):
    """A function that ends its process at some messages."""
    for one in messages.column("message_id").to_pylist():
        if one in KILLING:
            os.kill(os.getpid(), KILLING[one])
    return follow({"m03": None, "m07": 0})(messages)


def untraced(table):
    """Rows with the first line of a reason; the rest is a traceback."""
    return [row | {"_invalid": row["_invalid"] and row["_invalid"].partition("\n")[0]} for row in table.to_pylist()]


@pytest.mark.proves("a step finds the message at which its process ends, and remembers it")
def test_a_message_that_ends_its_process_is_set_aside_and_stays_so(tmp_path):
    table = table_of([f"m{n:02d}" for n in range(20)])
    calling = Calling(str(tmp_path), batch=4, apart=True).of(NAME.name, None)
    done = run_step(table, step_of(), kill, calling)
    reasons = {row["message_id"]: row["_invalid"] for row in done.to_pylist() if row["_invalid"]}
    assert reasons.pop("m03").startswith("process steps:apply: ValueError: can't do m03\nTraceback")
    assert reasons == {
        "m05": "process steps:apply: it ended its process: signal 9 (SIGKILL)",
        "m11": "process steps:apply: it ended its process: signal 11 (SIGSEGV)",
    }
    assert [row["margin"] for row in done.to_pylist()] == [None if n in {3, 5, 7, 11} else 0 for n in range(20)]
    assert [one for one in tmp_path.iterdir() if one.name != "fatal"] == []

    # The batch runs again in a worker that has had no trouble, and the function would take these messages now.
    mild = follow({"m03": None, "m07": 0})
    here = replace(calling, apart=False)
    assert untraced(run_step(table, step_of(), mild, here)) == untraced(done)
    again = run_step(table, step_of(), mild, replace(here, batch=5)).to_pylist()
    assert [row["message_id"] for row in again if row["_invalid"]] == ["m03"]
    forget_fatal(tmp_path, 5)
    again = run_step(table, step_of(), mild, here).to_pylist()
    assert [row["message_id"] for row in again if row["_invalid"]] == ["m03"]


def test_of_two_messages_of_one_id_and_place_the_one_that_ends_its_process(tmp_path):
    table = table_of(["m00", "same", "same"])
    calling = Calling(str(tmp_path), batch=0, apart=True).of(NAME.name, None)

    def apply(messages):
        if b"body 2" in messages.column("body").to_pylist():
            os._exit(7)
        return follow({})(messages)

    table = table.set_column(2, "body", pa.array([b"body 0", b"body 1", b"body 2"]))
    for done in (run_step(table, step_of(), apply, calling), run_step(table, step_of(), follow({}), calling)):
        assert done.column("_invalid").to_pylist() == [
            None,
            None,
            "process steps:apply: it ended its process: exit code 7",
        ]


@pytest.mark.proves("a step that is to fail names the message at which its process ends")
def test_a_step_that_fails_names_the_message_that_ends_its_process(tmp_path):
    calling = Calling(str(tmp_path), batch=0, apart=True).of(NAME.name, None)
    with pytest.raises(UsageError, match=r"failed at message m05: it ended its process: signal 9 \(SIGKILL\)"):
        run_step(table_of(["m04", "m05", "m06"]), step_of(on_error="fail"), kill, calling)


@pytest.mark.proves("an end of a step's process that doesn't come again blames no message")
def test_what_ends_a_process_once_is_no_fault_of_a_message(tmp_path):
    def apply(messages):
        if not (tmp_path / "once").exists():
            (tmp_path / "once").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return follow({})(messages)

    calling = Calling(str(tmp_path / "calls"), batch=0, apart=True).of(NAME.name, None)
    done = run_step(table_of(["m00"]), step_of(), apply, calling)
    assert done.column("_invalid").to_pylist() == [None]


def test_an_answer_of_the_wrong_shape_is_told_from_the_other_process(tmp_path):
    calling = Calling(None, batch=0, apart=True).of(NAME.name, None)
    with pytest.raises(UsageError, match="the function returned a int"):
        run_step(table_of(["m00"]), step_of(), lambda _: 7, calling)
