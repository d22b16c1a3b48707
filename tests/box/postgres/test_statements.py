"""The statements of the box, as the source calls them, compared with PostgreSQL's catalogue and with the files.

A function is called by its name, and its arguments are named at the call: no file repeats them. So a call with another name,
argument or kind of result than the schema's function has is found here, and not by the first user who gets there.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import seriatim
from seriatim.box.postgres.statements import statement
from seriatim.box.views.message_places import MessageFilter, places_of
from tests.databases import SCHEMA

pytestmark = pytest.mark.dear

SOURCE = Path(seriatim.__file__).parent
#: What files of the box have in common; they are no statements.
PARTS = {file.stem: file for file in (SOURCE / "box" / "postgres" / "sql" / "parts").glob("*.sql")}
FILES = {file.stem: file for file in (SOURCE / "box" / "postgres" / "sql").rglob("*.sql") if file.stem not in PARTS}
#: The journal of two regions has statements of its own, and no functions.
JOURNAL = "regions/journal"
JOURNAL_FILES = {file.stem: file for file in (SOURCE / JOURNAL / "sql").glob("*.sql")}
#: The methods of `Statements`, and what they take a function for.
ONE_VALUE, ROWS = {"value"}, {"rows", "one", "maybe", "portions"}
ANY = {"do"}
#: Functions that are there for SQL of users, and that nothing of the box calls.
OF_USERS = {"begin_dialog", "begin_monolog", "end_dialog", "move_dialog", "publish", "send", "set_dialog_timer"}
#: The functions, with the arguments that a call gives, their types, and whether a row or rows come back.
CATALOG = """
    SELECT
        known.proname, pg_get_functiondef(known.oid) AS body, known.pronargs - known.pronargdefaults AS needed, known.pronargs AS taken,
        coalesce(known.proargnames, '{}')::text[] AS names,
        ARRAY(SELECT kind::regtype::text FROM unnest(known.proargtypes::oid[]) AS kind) AS types,
        known.proretset OR known.prorettype = 'record'::regtype AS has_rows
    FROM pg_proc AS known WHERE known.pronamespace = %(schema)s::regnamespace
"""
#: What else may call a function: views, defaults, checks, triggers, expressions of indexes.
REFERRING = """
    SELECT pg_get_viewdef(oid) FROM pg_class WHERE relnamespace = %(schema)s::regnamespace AND relkind = 'v'
    UNION ALL SELECT pg_get_triggerdef(fires.oid) FROM pg_trigger AS fires JOIN pg_class AS of_table ON of_table.oid = tgrelid
        WHERE relnamespace = %(schema)s::regnamespace
    UNION ALL SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = %(schema)s::regnamespace
    UNION ALL SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_class AS of_table ON of_table.oid = adrelid
        WHERE relnamespace = %(schema)s::regnamespace
    UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class AS of_table ON of_table.oid = indexrelid
        WHERE relnamespace = %(schema)s::regnamespace
"""


@dataclass(frozen=True)
class Function:
    """A function of the schema: the text of it, its arguments with their types, those needed, and whether it gives rows."""

    body: str
    arguments: Mapping[str, str]
    needed: frozenset[str]
    has_rows: bool


@dataclass(frozen=True)
class Call:
    """A call in the source: where, the method, the statement, the parameters, and whether these are all of them."""

    where: str
    method: str
    name: str
    given: frozenset[str]
    is_whole: bool


@pytest.fixture
def functions(box) -> dict[str, Function]:
    with box.session() as tx:
        rows = tx.connection.execute(CATALOG, {"schema": SCHEMA}).fetchall()
    assert len({name for name, *_ in rows}) == len(rows)  # a name is one function
    return {
        name: Function(body, dict(zip(names, types, strict=False)), frozenset(names[:needed]), has_rows)
        for name, body, needed, taken, names, types, has_rows in rows
        if len(types) == taken
    }


def test_each_call_is_a_file_or_a_function_with_these_arguments(functions):
    wrong, calls = [], _calls()
    assert len(calls) > 150
    for call in calls:
        files = JOURNAL_FILES if call.where.startswith(JOURNAL) else FILES
        if call.name in files:
            code = statement(call.name, SCHEMA).decode() if files is FILES else _code(files[call.name])
            wanted = set(re.findall(r"%\((\w+)\)[sb]", code))
            if call.given - wanted or (call.is_whole and wanted - call.given):
                wrong.append(f"{call.where}: {call.name}.sql takes {sorted(wanted)}, and gets {sorted(call.given)}")
        elif files is JOURNAL_FILES or (function := functions.get(call.name)) is None:
            wrong.append(f"{call.where}: there is no file and no function {call.name}")
        elif call.given - set(function.arguments) or (call.is_whole and function.needed - call.given):
            wrong.append(f"{call.where}: {call.name} takes {list(function.arguments)}, and gets {sorted(call.given)}")
        elif call.method not in ANY and function.has_rows != (call.method in ROWS):
            kind = "rows" if function.has_rows else "one value"
            wrong.append(f"{call.where}: {call.name} gives {kind}, and isn't called by {call.method}")
    assert not wrong, "\n".join(wrong)


def test_most_calls_are_compared_with_all_their_arguments():
    calls = _calls()
    assert sum(call.is_whole for call in calls) > 0.8 * len(calls)


def test_arguments_of_bytes_are_known_by_their_names(functions):
    called = {call.name for call in _calls()} | _texts()
    for name, function in functions.items():
        if name in called and name not in FILES:
            for argument, kind in function.arguments.items():
                text = statement(name, SCHEMA, argument)
                assert (f"%({argument})b".encode() in text) == kind.startswith("bytea"), (name, argument)


def test_a_file_with_the_name_of_a_function_calls_it(functions):
    for name in sorted(FILES.keys() & functions.keys()):
        assert f"{{schema}}.{name}(" in FILES[name].read_text(), name


def test_no_file_is_only_a_call():
    """Such a file would repeat the arguments, and nothing else."""
    called = re.compile(
        r"SELECT (?:[\w, ]+ FROM |\* FROM )?\{schema\}\.\w+\((?:%\(\w+\)[sb](?:::[\w\[\]]+)?(?:, )?)*\)(?: AS \w+)?"
    )
    for name, file in FILES.items():
        assert not called.fullmatch(re.sub(r"\s+", " ", _code(file)).replace("( ", "(").replace(" )", ")")), name


def test_a_part_is_what_several_places_have_in_common():
    used = Counter(
        name for file in (*FILES.values(), *PARTS.values()) for name in re.findall(r"\{(\w+)\(", _code(file))
    )
    assert PARTS.keys() == used.keys()
    assert [name for name, times in used.items() if times < 2] == []


def test_a_part_gets_its_arguments():
    text = statement("found_faults", "shop").decode()
    assert "one.at >= %(since)s::timestamptz" in text
    assert not re.search(r"[{}]|--", text)


def test_nothing_is_left_that_nobody_calls(box, functions):
    with box.session() as tx:
        referring = [text or "" for (text,) in tx.connection.execute(REFERRING, {"schema": SCHEMA}).fetchall()]
    referring += [statement(name, SCHEMA).decode() for name in FILES]
    texts = _texts()
    assert not FILES.keys() - texts
    unused = set()
    for name in functions.keys() - texts:
        called = re.compile(rf'"?\b{SCHEMA}"?\.{name}\(')
        others = [other.body for which, other in functions.items() if which != name]
        if not any(called.search(text) for text in (*referring, *others)):
            unused.add(name)
    assert unused <= OF_USERS


def test_a_list_is_planned_for_the_filters_of_each_call(box):
    with box.access.transaction() as transaction:
        for _ in range(12):
            places_of(transaction, MessageFilter(queue="shop", status="faulted", limit=10))
            transaction.value("is_due")
        prepared = [text for (text,) in transaction.connection.execute("SELECT statement FROM pg_prepared_statements")]
    assert any("is_due" in text for text in prepared)
    assert not any("message_places" in text for text in prepared)


def test_the_text_of_a_call():
    assert statement("version", "shop") == b'SELECT "shop"."version"()'
    arguments = ("handle", "kind", "content_types", "bodies")
    assert statement("try_send_run", "shop", *arguments, of_rows=True) == (
        b'SELECT * FROM "shop"."try_send_run"("handle" => %(handle)s, "kind" => %(kind)s, '
        b'"content_types" => %(content_types)s, "bodies" => %(bodies)b)'
    )


# ---- the calls of the source


@cache
def _calls() -> tuple[Call, ...]:
    """Each call of a statement whose name stands there, with the parameters as far as they do."""
    return tuple(_found_calls())


def _found_calls() -> Iterator[Call]:
    for path, tree in _trees().items():
        for scope in _scopes(tree):
            dicts = _dicts(scope)
            for node in _inside(scope):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in ONE_VALUE | ROWS | ANY
                    and node.args
                    and isinstance(node.args[0], ast.Constant)
                    and isinstance(node.args[0].value, str)
                ):
                    given, is_whole = _given(node, dicts)
                    yield Call(f"{path}:{node.lineno}", node.func.attr, node.args[0].value, frozenset(given), is_whole)


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of the functions in it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from _inside(node)


def _dicts(scope: ast.AST) -> dict[str, tuple[set[str], bool]]:
    """The names of the variables of a function that are dictionaries: which keys, and whether these are all."""
    found: dict[str, tuple[set[str], bool]] = {}
    for node in _inside(scope):
        target, value = None, None
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            target, value = node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign | ast.AugAssign) and isinstance(node.target, ast.Name):
            target, value = node.target.id, node.value
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Tuple)
        ):
            for one, its in zip(node.targets[0].elts, node.value.elts, strict=False):
                if isinstance(one, ast.Name) and isinstance(its, ast.Dict):
                    found[one.id] = _keys(its, found)
        if target is not None and value is not None and (isinstance(value, ast.Dict | ast.BinOp)):
            keys, is_whole = _keys(value, found)
            before, was_whole = found.get(target, (set(), True)) if isinstance(node, ast.AugAssign) else (set(), True)
            found[target] = (keys | before, is_whole and was_whole)
    return found


def _keys(value: ast.AST, known: Mapping[str, tuple[set[str], bool]]) -> tuple[set[str], bool]:
    """The keys of a dictionary as it is written, and whether these are all."""
    if isinstance(value, ast.Name):
        return known.get(value.id, (set(), False))
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr):
        (left, left_whole), (right, right_whole) = _keys(value.left, known), _keys(value.right, known)
        return left | right, left_whole and right_whole
    if not isinstance(value, ast.Dict):
        return set(), False
    keys, is_whole = set[str](), True
    for key, one in zip(value.keys, value.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            keys.add(key.value)
        elif key is None:
            more, whole = _keys(one, known)
            keys, is_whole = keys | more, is_whole and whole
        else:
            is_whole = False
    return keys, is_whole


def _given(call: ast.Call, dicts: Mapping[str, tuple[set[str], bool]]) -> tuple[set[str], bool]:
    given, is_whole = set[str](), True
    for keyword in call.keywords:
        if keyword.arg is not None:
            given.add(keyword.arg)
        else:
            keys, whole = _keys(keyword.value, dicts)
            given, is_whole = given | keys, is_whole and whole
    return given, is_whole


@cache
def _texts() -> set[str]:
    """All texts of the source: names that stand apart from the call are among them."""
    return {
        node.value
        for tree in _trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@cache
def _trees() -> dict[str, ast.Module]:
    paths = sorted(SOURCE.rglob("*.py"))
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def _code(file: Path) -> str:
    lines = file.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")).strip()
