"""One call of the user's code with a table of messages: its rows, the meaning of its result, and the failed messages when it raises.

Pure pyarrow: this module doesn't use Spark.
A table has, besides a message's columns, ``_invalid`` (the reason why a row is no message) and ``_outputs``: null for a
message that leaves itself, or a list of the outputs that leave instead, empty for a consumed message. The function gets
a row for each output, and its results for them are gathered again under their message:

* nothing: the message is consumed. It keeps its values, so that it takes its place in the order;
* one row: its values become the message's;
* several: the values of the first row become the message's, and ``_outputs`` has all rows.

If the function raises, the messages are halved until each failing message is alone. The same is done for
a call that ends its process; as a process may be ended by others, too, a message fails only at the second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seriatim.errors import UsageError
from seriatim.kernel.values.columns import Ints
from seriatim.pipeline.declared.function import Function
from seriatim.spark.calls.child_process import Ended
from seriatim.spark.calls.register import Calling
from seriatim.spark.process.answer import Failure, FunctionResult, Unfit, array_of, understood

#: The column with the outputs that leave instead of a message.
OUTPUTS = "_outputs"
#: The prefix of a column's name for its value before a change of type, in the new type.
WAS = "_was_"

_INVALID = "_invalid"
_ID = "message_id"

Apply = Callable[[pa.Table], Any]

_HERE = Calling()


@dataclass(frozen=True, slots=True)
class Step:
    """The user's code at one place of a pipeline; survives pickling."""

    #: The function: it takes a table of messages, and returns ``message_id`` and the columns in `returns`.
    function: Function
    #: The columns that it adds or replaces, with their Arrow types.
    returns: Mapping[str, pa.DataType]
    #: ``set_aside``: a message for which it raises becomes invalid; ``fail``: the batch fails.
    on_error: Literal["set_aside", "fail"] = "set_aside"
    destination: str | None = None
    #: The columns that messages don't have yet at this place. The table has them, for the returned values; the function doesn't get
    #: them, so that it may append its results.
    hidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Called:
    """The function's results for some rows."""

    #: For each row of the answer the row that it was made of, ascending.
    source: Ints
    columns: Mapping[str, pa.Array]
    #: The rows for which it raised, and the exceptions.
    failed: Mapping[int, str]


def outputs_type(columns: Mapping[str, pa.DataType]) -> pa.DataType:
    return pa.list_(pa.field("element", pa.struct([pa.field(name, kind) for name, kind in columns.items()])))


def run_step(table: pa.Table, step: Step, apply: Apply, calling: Calling = _HERE) -> pa.Table:
    whole = table.combine_chunks()
    rows = _rows_for(whole, step)
    if not len(rows):
        return _laid_out(whole, {})
    source, messages = _unfolded(whole, rows)
    called = _called_in_turns(messages, step, apply, calling)
    every = len(rows) == len(messages) == whole.num_rows
    if every and np.array_equal(called.source, np.arange(len(rows))):
        return _laid_out(whole, called.columns)  # the common way: a row for each message
    return _folded(whole, step, rows, source, messages, called)


def _rows_for(table: pa.Table, step: Step) -> Ints:
    wanted = pc.is_null(table.column(_INVALID))
    if table.column(OUTPUTS).null_count != table.num_rows:
        wanted = pc.and_(wanted, pc.not_equal(pc.fill_null(pc.list_value_length(table.column(OUTPUTS)), 1), 0))
    if step.destination is not None:
        wanted = pc.and_(wanted, pc.fill_null(pc.equal(table.column("destination"), step.destination), False))
    return np.flatnonzero(wanted.to_numpy())


def _unfolded(table: pa.Table, rows: Ints) -> tuple[Ints, pa.Table]:
    """Return a row for each output of the messages in `rows`, and the row of the table that it belongs to."""
    every = len(rows) == table.num_rows
    if table.column(OUTPUTS).null_count == table.num_rows:
        return rows, table if every else table.take(pa.array(rows))
    lists = array_of(table.column(OUTPUTS).take(pa.array(rows)))
    sizes = pc.fill_null(pc.list_value_length(lists), 1).to_numpy()
    several = np.repeat(lists.is_valid().to_numpy(zero_copy_only=False), sizes)
    source = np.repeat(rows, sizes)
    unfolded = table.take(pa.array(source))
    nth = np.arange(len(source)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    numbered = pc.binary_join_element_wise(unfolded.column(_ID), pa.array(nth).cast(pa.string()), ".")
    unfolded = _put(unfolded, _ID, pc.if_else(pa.array(several), numbered, unfolded.column(_ID)))
    values = pc.list_flatten(lists)
    for field in values.type:
        own = array_of(unfolded.column(field.name))
        unfolded = _put(
            unfolded, field.name, pc.replace_with_mask(own, pa.array(several), pc.struct_field(values, field.name))
        )
    return source, unfolded


def _called_in_turns(messages: pa.Table, step: Step, apply: Apply, calling: Calling) -> _Called:
    """The whole answer. Messages with the same id, which a source may have, can't share a call, so they are called in turns."""
    names = [name for name in messages.column_names if not name.startswith("_") and name not in step.hidden]
    shown = messages.select(names)
    turns = _turns(shown.column(_ID))
    fatal = calling.fatal(lambda: zip(shown[_ID].to_pylist(), shown["body"].to_pylist(), strict=True))
    if fatal:
        known = np.array(sorted(fatal))
        turns = [rest for rows in turns if len(rest := rows[~np.isin(rows, known)])]
    elif len(turns) == 1:
        return _call(shown, step, apply, calling)
    parts = [(rows, _call(shown.take(pa.array(rows)), step, apply, calling)) for rows in turns]
    return _joined(parts, step, fatal)


def _joined(parts: Sequence[tuple[Ints, _Called]], step: Step, fatal: Mapping[int, str]) -> _Called:
    source = np.concatenate([np.empty(0, np.int64), *(rows[called.source] for rows, called in parts)])
    order = np.argsort(source, kind="stable")
    columns = {
        name: pa.concat_arrays([pa.nulls(0, kind), *(called.columns[name] for _, called in parts)]).take(
            pa.array(order)
        )
        for name, kind in step.returns.items()
    }
    failed = {int(rows[place]): reason for rows, called in parts for place, reason in called.failed.items()}
    return _Called(source[order], columns, failed | dict(fatal))


def _turns(ids: pa.ChunkedArray) -> list[Ints]:
    """The rows in portions without repeated ids."""
    count = len(ids)
    if pc.count_distinct(ids, mode="all").as_py() == count:
        return [np.arange(count)]
    codes = array_of(pc.dictionary_encode(ids, null_encoding="encode")).indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    turn = np.empty(count, np.int64)
    turn[order] = np.arange(count) - np.searchsorted(codes[order], codes[order])
    return [np.flatnonzero(turn == nth) for nth in range(int(turn.max()) + 1)]


def _call(messages: pa.Table, step: Step, apply: Apply, calling: Calling) -> _Called:
    """Call the function; if it raises or ends its process, call it with each half of its rows."""
    answers: list[FunctionResult] = []
    failed: dict[int, str] = {}
    waiting = [(0, messages.num_rows)]
    while waiting:
        start, size = waiting.pop()
        part = messages.slice(start, size)
        first, answered = part.column(_ID)[0].as_py(), partial(_answer, part, step, apply)
        answer = calling.call(size, first, answered)
        if isinstance(answer, Ended) and size == 1:
            answer = calling.call(size, first, answered)
            if isinstance(answer, Ended):
                answer = Failure.ended(answer, step.function.name)
                if step.on_error != "fail":
                    calling.keep_fatal(first, part.column("body")[0].as_py(), answer.told)
        if isinstance(answer, FunctionResult):
            answers.append(answer.moved(start))
        elif size > 1:
            half = size // 2
            waiting += [(start + half, size - half), (start, half)]
        elif isinstance(answer, Failure):
            if step.on_error == "fail":
                problem = f"the function failed at message {first}: {answer.line}"
                remedy = "mend it; with on_error: set_aside the others go on without that message"
                raise UsageError(problem, where=f"process {step.function.name}", remedy=remedy) from answer.error
            failed[start] = answer.told
    source = np.concatenate([np.empty(0, np.int64), *(answer.source for answer in answers)])
    columns = {
        name: pa.concat_arrays([pa.nulls(0, kind), *(answer.columns[name] for answer in answers)])
        for name, kind in step.returns.items()
    }
    return _Called(source, columns, failed)


def _answer(part: pa.Table, step: Step, apply: Apply) -> FunctionResult | Failure:
    name = step.function.name
    try:
        result = apply(part)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code may raise anything
        return Failure.of(error, name)
    try:
        return understood(result, part.column(_ID), step.returns, name)
    except Unfit as error:
        return Failure.of(error, name)


def _folded(table: pa.Table, step: Step, rows: Ints, source: Ints, messages: pa.Table, called: _Called) -> pa.Table:
    """The table with the function's results for some of its rows, gathered by message."""
    reasons: dict[int, str] = {}
    for place, reason in sorted(called.failed.items()):
        reasons.setdefault(int(source[place]), reason)
    good = ~np.isin(source[called.source], list(reasons))
    at, places = source[called.source][good], pa.array(np.flatnonzero(good))
    made_of = pa.array(called.source[good])
    changed, firsts = np.unique(at, return_index=True)
    # Where every message is one output before and after, the columns that this step doesn't return stay unchanged.
    single = len(messages) == len(rows) and len(changed) == len(at)
    returned = step.returns if single else [field.name for field in table.schema.field(OUTPUTS).type.value_type]
    values = {
        name: called.columns[name].take(places) if name in step.returns else array_of(messages[name]).take(made_of)
        for name in returned
    }
    mask = _mask(table.num_rows, changed)
    columns = {
        name: pc.replace_with_mask(_before(table, name), mask, value.take(pa.array(firsts)))
        for name, value in values.items()
    }
    columns[OUTPUTS] = _outputs(table, rows, at, values, list(reasons))
    if reasons:
        failed = np.array(sorted(reasons))
        texts = pa.array([reasons[row] for row in failed.tolist()], pa.string())
        columns[_INVALID] = pc.replace_with_mask(_before(table, _INVALID), _mask(table.num_rows, failed), texts)
    return _laid_out(table, columns)


def _outputs(table: pa.Table, rows: Ints, at: Ints, values: Mapping[str, pa.Array], failed: list[int]) -> pa.Array:
    """The column ``_outputs``: new for `rows`, null where the function failed, as it was for the others."""
    counts = np.bincount(at, minlength=table.num_rows)
    row_counts = counts[rows]
    ends = np.concatenate([[0], np.cumsum(np.where(row_counts > 1, row_counts, 0))])
    several = pa.array(np.flatnonzero(counts[at] > 1))
    kind = table.schema.field(OUTPUTS).type
    fields = list(kind.value_type)
    columns = [values[field.name].take(several) if len(several) else pa.nulls(0, field.type) for field in fields]
    elements = pa.StructArray.from_arrays(columns, fields=fields)
    single = (row_counts == 1) | np.isin(rows, failed)
    made = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), elements, type=kind, mask=pa.array(single))
    place = np.arange(table.num_rows)
    place[rows] = table.num_rows + np.arange(len(rows))
    return pa.concat_arrays([_before(table, OUTPUTS), made]).take(pa.array(place))


def _mask(size: int, rows: Ints) -> pa.Array:
    mask = np.zeros(size, bool)
    mask[rows] = True
    return pa.array(mask)


def _before(table: pa.Table, name: str) -> pa.Array:
    """The old values of a column, in the new type."""
    was = f"{WAS}{name}"
    return array_of(table.column(was if was in table.column_names else name))


def _laid_out(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    names = [name for name in table.column_names if not name.startswith(WAS)]
    return pa.table([columns[name] if name in columns else _before(table, name) for name in names], names)


def _put(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)
