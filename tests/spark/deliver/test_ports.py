"""A port that fails makes only its own destination wait; what waited arrives in order, once, wherever it is killed."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from seriatim import Queue, Standard
from seriatim.errors import CheckpointMismatch, EnvironmentProblem
from seriatim.pipeline.declared.pipeline import Deliver, Destination, Pipeline, Receive, Source
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.spark.deliver import port as port_module
from seriatim.spark.deliver.outbox import Kept, Outbox, folder_name, kept_in
from seriatim.spark.deliver.outgoing import Outgoing
from seriatim.spark.deliver.port import Port
from seriatim.spark.deliver.stage import Folders, Sink
from seriatim.spark.deliver.targets import Folder

SCHEMA = (
    "message_id string, type string, location string, customer string, version bigint, body binary, destination string, "
    "ordinal bigint, late boolean, disposition string, reason string"
)
PROMOTE = (Promotion("customer", "$.customer"), Promotion("version", "$.version", "long"))


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Delivery:
    """A sink over the ports `good` and `bad`, each in a folder of its name."""

    def __init__(self, spark, folder, bad=None):
        self.spark, self.folder, self.clock, self.delivered = spark, folder, Clock(), []
        route = tuple(
            Destination(Queue(name, Standard(), "customer", "version"), deliver)
            for name, deliver in (
                ("good", Deliver("json", folder / "good")),
                ("bad", bad or Deliver("json", folder / "bad")),
            )
        )
        receive = Receive("crm", Source("json", folder / "in"), PROMOTE)
        self.pipeline = Pipeline("p", folder / "checkpoint", (receive,), route)
        self.sink = None

    def __enter__(self):
        folders = Folders(self.folder / "aside", self.folder / "unrouted", self.folder / "checkpoint" / "waiting")
        self.sink = Sink(self.spark, self.pipeline, "id-1", folders, self.delivered.append, clock=self.clock)
        return self

    def __exit__(self, *_):
        self.sink.close()

    def batch(self, number, partitions=1):
        """Two messages of one customer for each port."""
        rows = [
            (f"crm/a:{n}", None, "crm", "c", n, b"{}", to, n, False, "released", None)
            for to in ("good", "bad")
            for n in (2 * number + 1, 2 * number + 2)
        ]
        self.sink(self.spark.createDataFrame(rows, SCHEMA).coalesce(partitions), number)

    def carry(self):
        """Until everything was tried once."""
        self.sink.carry(now=True)
        assert self.sink._carriers.wait(lambda: False)
        assert self.sink.settled()

    def waiting(self):
        return [(one.destination, one.rows, one.batches) for one in self.sink.waiting()]


def ordinals(folder):
    files = sorted(folder.glob("batch=*/*"))
    return [json.loads(line)["ordinal"] for file in files for line in file.read_text().splitlines()]


def break_(port):
    """What stands where the folder was is a file, for root too."""
    port.rename(port.with_name("away"))
    port.write_text("")


def mend(port):
    port.unlink()
    port.with_name("away").rename(port)


def test_a_port_that_fails_waits_alone_and_gets_everything_in_order_once(spark, tmp_path):
    bad = tmp_path / "bad"
    with Delivery(spark, tmp_path) as delivery:
        delivery.batch(0)
        break_(bad)
        delivery.batch(1)
        delivery.batch(2)
        assert ordinals(tmp_path / "good") == [1, 2, 3, 4, 5, 6]
        assert delivery.waiting() == [("bad", 4, 2)]
        (waiting,) = delivery.sink.waiting()
        assert waiting.reason == f"{bad}/.staging: Not a directory"
        assert delivery.delivered[1].counts == {("good", "released"): 2, ("bad", "released"): 2}
        mend(bad)
        assert ordinals(bad) == [1, 2]
        delivery.carry()
        assert delivery.waiting() == []
    assert ordinals(bad) == [1, 2, 3, 4, 5, 6]
    assert sorted(path.name for path in bad.iterdir()) == [".seriatim", *(f"batch=000000000{n}" for n in range(3))]
    with Delivery(spark, tmp_path) as delivery:
        delivery.batch(3)
    assert ordinals(bad) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert not list((tmp_path / "checkpoint" / "waiting").rglob("part-*"))


def test_a_port_is_tried_again_after_pauses_that_double(spark, tmp_path):
    (tmp_path / "bad").write_text("")
    with Delivery(spark, tmp_path) as delivery:
        assert delivery.waiting() == [("bad", 0, 0)]
        delivery.batch(0)
        (way,) = (one for one in delivery.sink._outgoing if one.destination == "bad")
        tried = []
        for second in range(130):
            delivery.clock.now = float(second)
            if way.is_due:
                tried.append(second)
                way.carry()
        assert tried == [1, 3, 7, 15, 31, 63, 123]
        (tmp_path / "bad").unlink()
        way.carry()
        assert not way.is_due
    assert ordinals(tmp_path / "bad") == [1, 2]


def test_what_waits_is_found_again_after_a_restart_and_goes_first(spark, tmp_path):
    (tmp_path / "bad").write_text("")
    with Delivery(spark, tmp_path) as delivery:
        delivery.batch(0)
        delivery.batch(1)
    with Delivery(spark, tmp_path) as again:
        assert again.waiting() == [("bad", 4, 2)]
        assert "can't deliver: File exists" in again.sink.waiting()[0].reason
        again.batch(1)  # the one in flight runs again
        (tmp_path / "bad").unlink()
        again.batch(2)
        assert again.waiting() == [("bad", 6, 3)]
        again.carry()
    assert ordinals(tmp_path / "bad") == [1, 2, 3, 4, 5, 6]
    assert ordinals(tmp_path / "good") == [1, 2, 3, 4, 5, 6]


def test_a_port_that_fails_only_when_it_is_put_in_place(spark, tmp_path):
    with Delivery(spark, tmp_path) as delivery:
        delivery.batch(0)
        (tmp_path / "bad" / ".seriatim").unlink()  # as on a folder below a mount that is gone
        delivery.batch(1)
        assert delivery.waiting() == [("bad", 2, 1)]
        assert delivery.sink.waiting()[0].reason == f"{tmp_path}/bad/.seriatim: No such file or directory"
        assert ordinals(tmp_path / "good") == [1, 2, 3, 4]
        assert not (tmp_path / "bad" / ".staging").exists()


def test_a_checkpoint_that_can_keep_nothing_fails_the_run(spark, tmp_path):
    (tmp_path / "bad").write_text("")
    (tmp_path / "checkpoint").mkdir()
    with Delivery(spark, tmp_path) as delivery:
        (tmp_path / "checkpoint" / "waiting").write_text("")
        with pytest.raises(EnvironmentProblem, match="the checkpoint can't be written: Not a directory"):
            delivery.batch(0)


def test_what_waits_in_another_format_is_not_delivered(spark, tmp_path):
    (tmp_path / "bad").write_text("")
    with Delivery(spark, tmp_path) as delivery:
        delivery.batch(0)
    with pytest.raises(CheckpointMismatch, match="waiting for bad: 1 batch in another format"):
        Delivery(spark, tmp_path, Deliver("csv", tmp_path / "bad")).__enter__()


@contextmanager
def small_disk(folder, size):
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=False)
    if mounted.returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=False)


def test_a_full_disk(spark, tmp_path):
    disk = tmp_path / "disk"
    with small_disk(disk, "16k"), Delivery(spark, tmp_path, Deliver("json", disk / "out")) as delivery:
        delivery.batch(0)
        filler = disk / "filler"
        with pytest.raises(OSError, match="No space left"):
            filler.write_bytes(b"x" * 2**20)
        delivery.batch(1, partitions=2)
        delivery.batch(2)
        assert delivery.waiting() == [("bad", 4, 2)]
        assert "No space left on device" in delivery.sink.waiting()[0].reason
        assert ordinals(disk / "out") == [1, 2]
        assert ordinals(tmp_path / "good") == [1, 2, 3, 4, 5, 6]
        filler.unlink()
        delivery.carry()
        assert ordinals(disk / "out") == [1, 2, 3, 4, 5, 6]


def test_a_disk_that_is_not_mounted_any_more(spark, tmp_path):
    disk = tmp_path / "disk"
    with small_disk(disk, "1m"), Delivery(spark, tmp_path, Deliver("json", disk)) as delivery:
        delivery.batch(0)
        subprocess.run(["umount", disk], check=True)
        delivery.batch(1)
        delivery.carry()
        assert "another disk is mounted in its place" in delivery.sink.waiting()[0].reason
        assert list(disk.iterdir()) == []  # nothing was put on the disk below
        subprocess.run(["mount", "-t", "tmpfs", "none", disk], check=True)


def test_a_sink_of_sparks_gets_typed_rows_in_order(spark, tmp_path):
    orc = Deliver("orc", tmp_path / "bad", {"compression": "zlib"})
    with Delivery(spark, tmp_path, orc) as delivery:
        for number in range(3):
            delivery.batch(number)
        delivery.carry()
        assert delivery.waiting() == []
    rows = spark.read.orc(str(tmp_path / "bad"))
    assert dict(rows.dtypes)["body"] == "binary"
    assert sorted(row.ordinal for row in rows.collect()) == [1, 2, 3, 4, 5, 6]
    for file in (tmp_path / "bad").glob("part-*"):
        found = [row.ordinal for row in spark.read.orc(str(file)).collect()]
        assert found == sorted(found)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Deliver("no-such-sink"), "no-such-sink"),
        (Deliver("jdbc", None, {"url": "jdbc:postgresql://127.0.0.1:1/x", "dbtable": "t"}), "No suitable driver"),
    ],
)
def test_a_sink_that_spark_refuses_waits_and_says_why(spark, tmp_path, bad, reason):
    with Delivery(spark, tmp_path, bad) as delivery:
        delivery.batch(0)
        delivery.carry()
        assert delivery.waiting() == [("bad", 2, 1)]
        assert reason in delivery.sink.waiting()[0].reason
        assert "\n" not in delivery.sink.waiting()[0].reason
    assert ordinals(tmp_path / "good") == [1, 2]


class Killed(BaseException):
    """Stands for SIGKILL: no `except Exception` sees it, and nothing after it is run."""


def waiting_port(root, outbox=Outbox):
    """A port with batch 0 in place, and batches 1 and 2 in its outbox."""
    port = Port("orders", root / "out", "json")
    port.claim("p", "id")
    way = Outgoing("orders", Folder(port, "p", "id"), outbox(Port("orders", root / "waiting", "json"), "p", "id"))
    assert way.ready() == port
    stage(port, "1\n")
    assert way.put(0, [("s", "part-00000.json")], 1, None)
    assert not way.put(1, [], 0, "failed on purpose")
    for batch, text in ((1, "2\n3\n"), (2, "4\n")):
        stage(way.ready(), text)
        assert way.put(batch, [("s", "part-00000.json")], text.count("\n"), None)
    return way


def stage(port, text):
    port.staging.mkdir(exist_ok=True)
    (port.staging / "s").write_text(text)


def numbers(folder):
    return [int(line) for file in sorted(folder.glob("batch=*/part-*")) for line in file.read_text().splitlines()]


def test_killed_at_any_step_of_delivering_what_waited_it_arrives_once_and_in_order(tmp_path, monkeypatch):
    for after in range(60):
        root = tmp_path / str(after)
        way = waiting_port(root)
        left = [after]

        def step(real, left=left):
            def counted(*args, **named):
                if left[0] == 0:
                    raise Killed
                left[0] -= 1
                return real(*args, **named)

            return counted

        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", step(Path.rename))
            patched.setattr(Path, "mkdir", step(Path.mkdir))
            patched.setattr(shutil, "rmtree", step(shutil.rmtree))
            patched.setattr(shutil, "copyfileobj", step(shutil.copyfileobj))
            with suppress(Killed):
                way.carry()
        assert numbers(root / "out") in ([1], [1, 2, 3], [1, 2, 3, 4])
        again = Outgoing("orders", way._target, Outbox(Port("orders", root / "waiting", "json"), "p", "id"))
        again.carry()
        assert numbers(root / "out") == [1, 2, 3, 4]
        assert again.waiting() is None
        assert sorted(path.name for path in (root / "out").iterdir() if path.name != ".staging") == [
            ".seriatim",
            *(f"batch=000000000{n}" for n in range(3)),
        ]
        if left[0]:
            break
    assert left[0]
    assert after > 10


@pytest.mark.parametrize("begins", ["at the first step", "before each folder is synced"])
def test_a_query_that_begins_while_what_waited_is_carried_leaves_it_alone(tmp_path, monkeypatch, begins):
    way = waiting_port(tmp_path)
    real = port_module.sync_folder

    def synced(folder):
        if begins == "before each folder is synced" or not numbers(tmp_path / "out")[1:]:
            way.begin()
        real(folder)

    monkeypatch.setattr(port_module, "sync_folder", synced)
    way.carry()
    assert way.waiting() is None
    assert numbers(tmp_path / "out") == [1, 2, 3, 4]


def test_a_batch_that_is_replaced_while_it_is_carried_is_carried_again(tmp_path):
    way = waiting_port(tmp_path)
    outbox = way._outbox
    first = outbox.kept[0]
    stage(way.ready(), "5\n")
    assert way.put(1, [("s", "part-00000.json")], 1, None)
    outbox.drop(first)
    assert [one.batch for one in outbox.kept] == [1, 2]
    way.carry()
    assert numbers(tmp_path / "out") == [1, 5, 4]


def test_what_a_later_run_may_have_in_hand_is_not_removed(tmp_path):
    way = waiting_port(tmp_path)
    later = Outbox(Port("orders", tmp_path / "waiting", "json", fence=2), "p", "id")
    with pytest.raises(CheckpointMismatch, match="a later run of this pipeline has taken over"):
        way._outbox.drop(way._outbox.kept[0])
    assert [later.port.folder(one.batch).is_dir() for one in later.kept] == [True, True]


def test_a_port_fails_until_it_has_the_batch_that_it_did_not_take(tmp_path):
    port = Port("orders", tmp_path / "out", "json")
    port.claim("p", "id")
    kept = Outbox(Port("orders", tmp_path / "waiting", "json"), "p", "id")
    way = Outgoing("orders", Folder(port, "p", "id"), kept)
    way.ready()
    assert not way.put(0, [], 0, "failed on purpose")
    way.carry()  # it could be claimed again, and the workers still write the batch once more
    assert way.waiting().reason == "failed on purpose"
    stage(way.ready(), "1\n")
    assert way.put(0, [("s", "part-00000.json")], 1, None)
    assert (way.waiting().rows, way.waiting().reason) == (1, "failed on purpose")
    way.carry()
    assert way.waiting() is None
    assert numbers(tmp_path / "out") == [1]


def test_a_port_fails_until_its_outbox_has_the_batch_that_it_did_not_take(tmp_path):
    port = Port("orders", tmp_path / "out", "json")
    port.claim("p", "id")

    class CarriedMeanwhile(Outbox):
        def put(self, kept, parts):
            way.carry()  # as the other thread may at any moment: the port could be claimed again
            super().put(kept, parts)

    kept = CarriedMeanwhile(Port("orders", tmp_path / "waiting", "json"), "p", "id")
    way = Outgoing("orders", Folder(port, "p", "id"), kept)
    way.ready()
    assert not way.put(0, [], 0, "failed on purpose")
    stage(way.ready(), "1\n")
    assert way.put(0, [("s", "part-00000.json")], 1, None)
    assert (way.waiting().rows, way.waiting().reason) == (1, "failed on purpose")
    way.carry()
    assert way.waiting() is None
    assert numbers(tmp_path / "out") == [1]


def test_a_port_fails_also_where_its_outbox_gets_the_batch_just_after_the_carrier_looked(tmp_path):
    port = Port("orders", tmp_path / "out", "json")
    port.claim("p", "id")
    meanwhile = []

    class LookedAt(Outbox):
        @property
        def kept(self):
            found = self.found
            while meanwhile:
                meanwhile.pop()()
            return found

        @kept.setter
        def kept(self, found):
            self.found = found

    def keep():
        assert way.put(0, [("s", "part-00000.json")], 1, None)
        way.stop()  # or the carrier would go on and take the batch

    way = Outgoing("orders", Folder(port, "p", "id"), LookedAt(Port("orders", tmp_path / "waiting", "json"), "p", "id"))
    way.ready()
    assert not way.put(0, [], 0, "failed on purpose")
    stage(way.ready(), "1\n")
    meanwhile.append(keep)
    way.carry()
    assert (way.waiting().rows, way.waiting().reason) == (1, "failed on purpose")


def test_a_port_that_fails_as_soon_as_it_has_what_waited_goes_on_failing(tmp_path):
    class FailedMeanwhile(Outbox):
        def drop(self, kept):
            super().drop(kept)
            if kept.batch == 2:  # the last one: from now on the other thread takes the straight way
                assert way.ready() == way._target.port
                assert not way.put(3, [], 0, "failed once more")

    way = waiting_port(tmp_path, FailedMeanwhile)
    way.carry()
    assert way.has_work
    assert way.waiting().reason == "failed once more"
    stage(way.ready(), "5\n")
    assert way.put(3, [("s", "part-00000.json")], 1, None)
    assert (way.waiting().rows, way.waiting().reason) == (1, "failed once more")
    way.carry()
    assert way.waiting() is None
    assert numbers(tmp_path / "out") == [1, 2, 3, 4, 5]


def test_an_outbox_that_is_damaged_is_refused(tmp_path):
    waiting_port(tmp_path)
    (tmp_path / "waiting" / "batch=0000000001" / ".about.json").write_text("{")
    with pytest.raises(CheckpointMismatch, match="the file is damaged"):
        Outbox(Port("orders", tmp_path / "waiting", "json"), "p", "id")


def test_who_looks_into_an_outbox_beside_a_run_is_not_told_that_it_is_damaged(tmp_path, monkeypatch):
    waiting_port(tmp_path)
    port, read = Port("orders", tmp_path / "waiting", "json"), Path.read_bytes
    about = port.folder(1) / ".about.json"

    def found_if(change):
        """The batches that are found if a run does this when batch 1 is listed and not read."""
        changes = [change]
        monkeypatch.setattr(
            Path, "read_bytes", lambda file: (changes.pop() if file == about and changes else read)(file)
        )
        return [one.batch for one in kept_in(port.root)[1]]

    def replace(file):
        former = file.parent.rename(tmp_path / "former")
        try:
            return read(file)
        finally:
            former.rename(file.parent)

    def remove(file):
        port.remove(1)
        return read(file)

    assert found_if(replace) == [1, 2]
    assert found_if(remove) == [2]
    (port.folder(2) / ".about.json").unlink()
    with pytest.raises(CheckpointMismatch, match="the file is damaged"):
        kept_in(port.root)


@contextmanager
def away_at_the_start(spark, folder, *, batches):
    """A delivery that goes on with batch 1. Its ports have `batches` batches; one of them was away at the start, and is back."""
    with Delivery(spark, folder) as delivery:
        for number in range(batches):
            delivery.batch(number)
    shutil.rmtree(folder / "good")
    break_(folder / "bad")
    with Delivery(spark, folder) as delivery:
        delivery.sink.check_age(1)
        delivery.batch(1)
        mend(folder / "bad")
        delivery.carry()
        yield delivery


def test_a_port_that_fails_at_the_start_is_asked_for_its_batches_before_it_gets_any(spark, tmp_path):
    with away_at_the_start(spark, tmp_path, batches=4) as delivery:
        (waiting,) = delivery.sink.waiting()
        assert "the port has batch 3, and the checkpoint would go on with batch 1: it is older" in waiting.reason
        assert delivery.waiting() == [("bad", 2, 1)]
    assert ordinals(tmp_path / "bad") == [*range(1, 9)]


def test_a_port_that_failed_at_the_start_and_is_as_old_as_the_checkpoint_gets_what_waits(spark, tmp_path):
    with away_at_the_start(spark, tmp_path, batches=1) as delivery:
        delivery.batch(2)
        break_(tmp_path / "bad")
        delivery.batch(3)
        mend(tmp_path / "bad")
        delivery.carry()
        assert delivery.waiting() == []
    assert ordinals(tmp_path / "bad") == [*range(1, 9)]


def test_every_destination_has_a_folder_name_of_its_own():
    names = ["a", "A", "a/b", "a%2Fb", ".", "..", ".a", "ä", "x" * 300, "x" * 301, "set-aside", "+set-aside", "a b"]
    found = {folder_name(name) for name in names}
    assert len(found) == len(names)
    assert all(0 < len(name) <= 255 and "/" not in name and not name.startswith((".", "+")) for name in found)
    assert Kept(1, 2, 0.0, "").batch == 1
