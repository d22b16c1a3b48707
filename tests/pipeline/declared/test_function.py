"""Functions by name: where they are looked for, and what is said of those that can't be used."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from seriatim.errors import UsageError
from seriatim.pipeline.declared.function import Function, load_function, search_folders


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """Modules and path stay as they were for the other tests."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def refused(name, *folders):
    with pytest.raises(UsageError) as caught:
        load_function(name, folders)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_it_is_found_in_the_folders(tmp_path):
    (tmp_path / "fn_orders").mkdir()
    (tmp_path / "fn_orders" / "__init__.py").touch()
    (tmp_path / "fn_orders" / "enrich.py").write_text("class Of:\n    @staticmethod\n    def apply(x): return x + 1\n")
    function = pickle.loads(pickle.dumps(Function("fn_orders.enrich:Of.apply", (str(tmp_path),))))
    assert function.load()(1) == 2


def test_it_is_looked_for_in_the_current_directory_and_beside_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert search_folders(Path("sub/pipeline.yaml")) == (str(tmp_path), str(tmp_path / "sub"))
    assert search_folders(Path("pipeline.yaml")) == search_folders(None) == (str(tmp_path),)


@pytest.mark.parametrize("name", ["", "a", "a:", ":b", "a.:b", "a:b.", "a b:c", "a:b:c", "1:2", "a/b:c", "a-b:c"])
def test_what_is_no_name(name):
    assert refused(name) == f"{name!r} doesn't name a function (write module:name, such as orders.enrich:apply)"


def test_what_is_not_there(tmp_path):
    (tmp_path / "fn_there.py").write_text("value = 7\ndef apply(x): return x\n")
    assert refused("fn_absent.deeper:apply", tmp_path).startswith(
        "there is no module 'fn_absent' (looked for in Python"
    )
    assert refused("fn_there.deeper:apply", tmp_path).startswith("there is no module 'fn_there.deeper'")
    wanted = f"function fn_there:aply: module 'fn_there' ({tmp_path}/fn_there.py) has no 'aply' (it has apply)"
    assert refused("fn_there:aply", tmp_path) == wanted
    assert "'value' in module 'fn_there'" in refused("fn_there:value", tmp_path)
    assert refused("fn_there:value", tmp_path).endswith("has the type int, which isn't callable")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import fn_nowhere\n", "ModuleNotFoundError: No module named 'fn_nowhere' at {file}:1"),
        ("x = 1\ny = 1 / 0\n", "ZeroDivisionError: division by zero at {file}:2"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 at {file}:2"),
        ("def apply(:\n", "SyntaxError: invalid syntax (fn_broken.py, line 1)"),
    ],
)
def test_what_cant_be_imported(tmp_path, text, told):
    file = tmp_path / "fn_broken.py"
    file.write_text(text)
    assert refused("fn_broken:apply", tmp_path) == (
        f"the module 'fn_broken' can't be imported: {told.format(file=file)}"
    )


def test_a_file_never_stands_for_an_installed_module(tmp_path):
    (tmp_path / "queue.py").write_text("def apply(x): return x\n")
    told = refused("queue:apply", tmp_path)
    assert told.startswith("the module 'queue' is /")
    assert told.endswith(f"and not {tmp_path}/queue.py (rename your module: a process has only one module of a name)")


def test_two_folders_with_one_name(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "fn_twice.py").write_text(f"def apply(x): return {name!r}\n")
    assert load_function("fn_twice:apply", [tmp_path / "one"])(0) == "one"
    told = refused("fn_twice:apply", tmp_path / "two")
    assert told.startswith(f"the module 'fn_twice' is {tmp_path}/one/fn_twice.py here, and not {tmp_path}/two/")


@pytest.mark.parametrize(
    ("written", "module"),
    [
        ("shop.py:handle", "shop:handle"),
        ("./shop.py:handle", "shop:handle"),
        ("orders/enrich.py:apply", "orders.enrich:apply"),
        ("shop.py", "shop:function"),
    ],
)
def test_a_file_in_place_of_a_module(written, module):
    assert refused(written) == f"{written!r} names a file, not a module (write {module})"
