"""The embedded PostgreSQL trusts no folder that somebody else has prepared, and starts no data that somebody else has made."""

from __future__ import annotations

import json
import os
import pty
import pwd
import shutil
import socket
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.server import embedded
from seriatim.box.server.binaries import Owner
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.box.server.own_data import OwnData, Registry, new_id
from seriatim.box.server.private_folder import PrivateFolder
from seriatim.box.server.server_user import maker_for, new_owner
from seriatim.cli.main import main
from seriatim.operations import identity
from tests.box.embedding import data_of, has_gone, is_root, servers_in
from tests.command import command, environment

#: Somebody else on this machine.
STRANGER = 54_321

as_root = pytest.mark.skipif(not is_root(), reason="only root can make files of somebody else")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the box is, with a file beside it that nobody may touch."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SERIATIM_DSN", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o700)
    for name in ("letter", ".s.PGSQL.5432"):
        (precious / name).write_text("mine")
    yield tmp_path
    assert sorted(one.name for one in precious.iterdir()) == [".s.PGSQL.5432", "letter"]
    assert {one.read_text() for one in precious.iterdir()} == {"mine"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A box that was used and is closed, to be copied."""
    place = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.delenv("SERIATIM_DSN", raising=False)
        with sq.MessageBox.open() as box:
            with box.session() as tx:
                tx.dispense("crm", count=10)
            identity.forget(box)  # a copy that knows its original would be disabled
    assert has_gone(place)
    return place / ".seriatim"


def copied(made: Path, folder: Path) -> Path:
    """A copy, as an archive leaves one behind: all of it belongs to whoever unpacked it."""
    subprocess.run(["cp", "-a", made, folder], check=True)
    return folder / ".seriatim" / "postgres"


def first_number() -> int:
    with sq.MessageBox.open() as box, box.session() as tx:
        return tx.dispense("crm").first


def refused(match: str) -> sq.EnvironmentProblem:
    with pytest.raises(sq.EnvironmentProblem, match=match) as caught:
        sq.MessageBox.open()
    return caught.value


# --- Folders


@as_root
@pytest.mark.parametrize("which", [".seriatim", ".seriatim/postgres"])
def test_a_folder_of_somebody_else_is_refused(folder, which):
    (folder / ".seriatim/postgres").mkdir(mode=0o700, parents=True)
    os.chown(folder / which, STRANGER, STRANGER)
    error = refused(f"belongs to another user .uid {STRANGER}")
    assert error.where == str(folder / which)
    assert "DSN" in error.remedy
    (finding,) = examined()
    assert (finding.state.value, finding.remedy) == ("wrong", error.remedy)
    assert list((folder / ".seriatim/postgres").iterdir()) == []


@pytest.mark.parametrize(
    ("which", "mode", "group", "command"),
    [
        (".seriatim", 0o757, None, "chmod go-w"),
        (".seriatim", 0o775, STRANGER, "chmod go-w"),
        (".seriatim/postgres", 0o755, None, "chmod 700"),
        (".seriatim/postgres", 0o770, None, "chmod 700"),
        (".seriatim/postgres", 0o701, None, "chmod 700"),
    ],
)
def test_a_folder_that_others_may_write_to_or_enter_is_refused(folder, which, mode, group, command):
    (folder / ".seriatim/postgres").mkdir(mode=0o700, parents=True)
    if group is not None:
        if not is_root():
            pytest.skip("only root can give a folder to another group")
        os.chown(folder / which, -1, group)
    (folder / which).chmod(mode)
    error = refused("others (may write|can enter)")
    assert f"{command} {folder / which}" in error.remedy
    assert list((folder / ".seriatim/postgres").iterdir()) == []
    subprocess.run([*command.split(), str(folder / which)], check=True)
    assert PrivateFolder(folder / ".seriatim/postgres").handle >= 0


def test_what_is_made_nobody_else_may_write_to(folder):
    before = os.umask(0)
    try:
        PrivateFolder(folder / ".seriatim/postgres")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / ".seriatim").stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / ".seriatim/postgres").stat().st_mode) == 0o700


@as_root
def test_a_group_that_is_only_this_users_may_write(folder):
    (folder / ".seriatim").mkdir()
    (folder / ".seriatim").chmod(0o775)  # as a process with the umask 002 makes it, for a pipeline
    assert PrivateFolder(folder / ".seriatim/postgres").handle >= 0


@as_root
@pytest.mark.parametrize("which", [".seriatim", ".seriatim/postgres"])
def test_a_link_is_followed_only_if_it_is_this_users(folder, which):
    other = folder / "other"
    (other / "postgres").mkdir(mode=0o700, parents=True)
    if which == ".seriatim/postgres":
        (folder / ".seriatim").mkdir()
    link = folder / which
    link.symlink_to(other if which == ".seriatim" else other / "postgres")
    assert PrivateFolder(folder / ".seriatim/postgres").stat("") is None
    os.lchown(link, STRANGER, STRANGER)
    assert refused("belongs to another user").where == str(link)


def test_a_link_that_leads_nowhere_is_refused(folder):
    (folder / ".seriatim").symlink_to(folder / "nowhere")
    refused("can't be used")


_SECOND = """
import os, sys
from contextlib import suppress
from pathlib import Path
import psycopg
from seriatim.box.server import embedded, private_folder
from seriatim.box.connection.connections import _settings
from seriatim.errors import EnvironmentProblem
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
{code}
"""


def second_user(code: str, uid: int = STRANGER) -> str:
    """What a program of another user prints."""
    words = [sys.executable, "-c", _SECOND.format(code=code, uid=uid)]
    return subprocess.run(words, capture_output=True, text=True, check=True, env=environment()).stdout.strip()


@as_root
def test_in_a_folder_for_everybody_each_user_has_his_own(tmp_path_factory):
    shared = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    try:
        shared.chmod(0o1777)
        enter = f"""
try:
    folder = private_folder.PrivateFolder(Path({str(shared)!r}) / ".seriatim/postgres")
    print(os.fstat(folder.handle).st_uid)
except EnvironmentProblem as error:
    print(error.what)
"""
        assert second_user(enter) == str(STRANGER)
        with pytest.raises(sq.EnvironmentProblem, match=f"uid {STRANGER}"):
            EmbeddedServer(shared / ".seriatim/postgres")
        assert second_user(enter, uid=STRANGER + 1) == (
            f"the folder of the embedded PostgreSQL belongs to another user (uid {STRANGER})"
        )
    finally:
        shutil.rmtree(shared)


# --- Files


@pytest.mark.parametrize("kind", ["link", "other name", "pipe"])
def test_a_file_that_is_none_of_ours_is_not_opened(folder, kind):
    private = PrivateFolder(folder / ".seriatim/postgres")
    for name in ("users.lock", "server.log"):
        odd = private.path / name
        match kind:
            case "link":
                odd.symlink_to(folder / "precious/letter")
            case "other name":
                odd.hardlink_to(folder / "precious/letter")
            case "pipe":
                os.mkfifo(odd)
        for mode in ("ab", "rb") if kind != "pipe" else ("ab",):
            with pytest.raises(sq.EnvironmentProblem, match="is no plain file") as error:
                private.open(name, mode)
            assert error.value.where == str(odd)
    assert refused("is no plain file").where == str(private.path / "users.lock")


@pytest.mark.dear
def test_what_files_name_is_neither_removed_nor_connected_to(folder):
    """Notes that somebody else has prepared, with the socket of another server."""
    ours = folder / ".seriatim/postgres"
    ours.mkdir(mode=0o700, parents=True)
    listener = socket.socket(socket.AF_UNIX)
    theirs = folder / "t"
    theirs.mkdir(mode=0o700)
    os.chdir(theirs)
    listener.bind(".s.PGSQL.5432")
    os.chdir(folder)
    listener.listen()
    listener.setblocking(False)
    (ours / "server.json").write_text(json.dumps({"sockets": str(theirs), "major": 18}))
    (ours / "sockets.json").write_text(json.dumps({"sockets": str(folder / "precious"), "of": ours.stat().st_ino}))
    (ours / "data.new-x").symlink_to(folder / "precious")
    with listener:
        assert first_number() == 1
        assert has_gone(folder)
        with pytest.raises(BlockingIOError):
            listener.accept()


@as_root
def test_who_has_only_the_dsn_talks_to_no_server_of_somebody_else(tmp_path_factory):
    """The folder of the socket has gone with its server, and another user has made one of that name."""
    place = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    try:
        place.chmod(0o755)
        sockets = place / "seriatim-x"
        sockets.mkdir()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(sockets / ".s.PGSQL.5432"))
            (sockets / ".s.PGSQL.5432").chmod(0o777)
            listener.listen()
            told = second_user(
                f"""
dsn = "host={sockets} dbname=postgres user=seriatim"
try:
    psycopg.connect(dsn, **_settings(dsn))
except psycopg.OperationalError as error:
    print(error)
""",
                uid=pwd.getpwnam("nobody").pw_uid,
            )
        assert 'requirepeer specifies "nobody", but actual peer user name is "root"' in told
    finally:
        shutil.rmtree(place)


# --- Data


@pytest.mark.dear
def test_data_that_were_copied_are_asked_about_once(made, folder):
    postgres = copied(made, folder)
    before = sorted(postgres.iterdir())
    error = refused("weren't made by you on this machine")
    assert isinstance(error, sq.UntrustedData)
    assert error.remedy == "if you trust them: seriatim box trust"
    (finding,) = [one for one in examined() if one.name == "box"]
    assert (finding.state.value, finding.remedy) == ("wrong", error.remedy)
    result = CliRunner().invoke(main, ["box", "status"])
    assert result.exit_code == 3
    assert "seriatim box trust" in result.stderr
    assert sorted(postgres.iterdir()) == before
    assert f"trusted: {postgres}" in called("box", "trust").output
    assert first_number() == 11
    assert has_gone(folder)
    assert first_number() == 12
    assert has_gone(folder)
    assert "trusted already" in called("box", "trust").output


def examined():
    from seriatim.operations.doctor import findings_at

    return list(findings_at(None, "seriatim"))


def called(*words: str, code: int = 0):
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == code, result.output
    return result


def test_there_is_nothing_to_trust(folder):
    assert "no embedded PostgreSQL" in called("box", "trust", code=2).stderr
    PrivateFolder(folder / ".seriatim/postgres")
    assert "no data" in called("box", "trust", code=2).stderr


@pytest.mark.dear
def test_a_terminal_is_asked(made, folder):
    copied(made, folder)
    for answer, code in (("n", 3), ("y", 0)):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            command("box", "status"),
            cwd=folder,
            env=_without_dsn(),
            stdin=theirs,
            stderr=theirs,
            stdout=subprocess.PIPE,
        )
        os.close(theirs)
        told = b""
        while b"[y/N]" not in told:
            told += os.read(ours, 4096)
        os.write(ours, f"{answer}\n".encode())
        out, _ = process.communicate()
        os.close(ours)
        assert process.returncode == code
        assert (b"version" in out) == (answer == "y")
        assert b"Their author can run programs as you" in b" ".join(told.split())
    assert has_gone(folder)


def _without_dsn():
    return {name: value for name, value in environment().items() if name != "SERIATIM_DSN"}


@pytest.mark.parametrize("where", ["postgresql.auto.conf", "postgresql.conf"])
def test_what_foreign_data_set_runs_nothing_and_leads_nowhere(made, folder, where):
    postgres = copied(made, folder)
    marked = folder / "marked"
    settings = {
        "archive_mode": "on", "archive_command": f"touch {marked}", "archive_timeout": "1", "port": "5999",
        "shared_preload_libraries": "stranger", "session_preload_libraries": "stranger", "jit_provider": "stranger",
        "local_preload_libraries": "stranger", "dynamic_library_path": "/nowhere",
        "ssl_passphrase_command": f"touch {marked}", "external_pid_file": str(marked),
        "listen_addresses": "*", "unix_socket_directories": "/tmp", "logging_collector": "on",
        "log_directory": str(folder), "log_filename": "marked", "log_destination": "csvlog",
        "restore_command": f"touch {marked}", "recovery_end_command": f"touch {marked}",
        "archive_cleanup_command": f"touch {marked}", "primary_conninfo": "host=stranger.example",
    }  # fmt: skip
    text = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
    if where == "postgresql.conf":
        (postgres / "data/more.conf").write_text(text)
        text = "data_directory = '/nowhere'\nhba_file = '/nowhere'\nident_file = '/nowhere'\ninclude 'more.conf'\n"
    with (postgres / "data" / where).open("a") as file:
        file.write(text)
    (postgres / "data/pg_hba.conf").write_text("local all all reject\n")
    refused("weren't made by you")
    assert embedded.trust(Path(".seriatim/postgres"))
    with sq.MessageBox.open() as box:
        with box.session() as tx:
            assert tx.dispense("crm").first == 11
            for name in (
                "shared_preload_libraries",
                "session_preload_libraries",
                "listen_addresses",
                "external_pid_file",
            ):
                assert tx.connection.execute(f"SHOW {name}").fetchone() == ("",)
            for name in ("ssl", "archive_mode", "logging_collector"):
                assert tx.connection.execute(f"SHOW {name}").fetchone() == ("off",)
        with psycopg.connect(box.dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
            connection.execute("SELECT pg_reload_conf()")
    assert has_gone(folder)
    assert not list(folder.glob("marked*"))


@as_root
def test_data_of_nobody_get_a_user_of_their_own(made, folder):
    postgres = copied(made, folder)
    nobody = pwd.getpwnam("nobody").pw_uid
    subprocess.run(["chown", "-R", str(nobody), postgres / "data"], check=True)
    (postgres / "id").unlink()
    (postgres / "sockets.json").write_text(json.dumps({"sockets": "/tmp/seriatim-old", "of": postgres.stat().st_ino}))
    refused("they were copied or unpacked")
    called("box", "trust")
    uids = {one.lstat().st_uid for one in (postgres / "data").rglob("*")}
    assert len(uids) == 1
    assert not uids & {0, nobody}
    assert first_number() == 11
    assert has_gone(folder)


@as_root
def test_data_that_have_other_names_are_given_to_nobody(made, folder):
    postgres = copied(made, folder)
    (postgres / "data/letter").hardlink_to(folder / "precious/letter")
    assert "has another name" in called("box", "trust", code=3).stderr
    assert (folder / "precious/letter").stat().st_uid == 0
    (postgres / "data/letter").unlink()
    (postgres / "data/pg_tblspc/1").symlink_to(folder / "precious")
    assert "tablespaces" in called("box", "trust", code=3).stderr


def owners_of(paths):
    """The owners of what is there; a running server removes files, and its processes end."""
    owners = set()
    for path in paths:
        with suppress(FileNotFoundError, ProcessLookupError):
            owners.add(path.lstat().st_uid)
    return owners


@pytest.mark.dear
@as_root
def test_the_server_of_root_is_a_user_that_nothing_else_is(folder, monkeypatch):
    (folder / "other").mkdir()
    with sq.MessageBox.open():
        uid = data_of(folder).stat().st_uid
        assert owners_of(Path(f"/proc/{one}") for one in servers_in(data_of(folder))) == {uid}
        assert owners_of(data_of(folder).rglob("*")) == {uid}
        with pytest.raises(KeyError):
            pwd.getpwuid(uid)
    assert uid not in (0, pwd.getpwnam("nobody").pw_uid)
    assert new_owner((), free=[range(uid, uid + 1), range(uid + 1, uid + 2)]).uid in (uid, uid + 1)
    assert new_owner({uid}, free=[range(uid, uid + 1), range(uid + 1, uid + 2)]).uid == uid + 1
    with pytest.raises(sq.EnvironmentProblem, match="no number"):
        new_owner((), free=[range(2)])
    assert has_gone(folder)


@as_root
def test_data_are_made_by_a_user_with_a_name_in_the_group_of_the_server(monkeypatch):
    owner = new_owner(())
    assert maker_for(owner) == Owner(pwd.getpwnam("nobody").pw_uid, owner.gid)
    users = [pwd.struct_passwd((name, "x", uid, uid, "", "/", "/bin/sh")) for name, uid in (("root", 0), ("mail", 8))]
    monkeypatch.setattr(pwd, "getpwnam", {}.__getitem__)  # a system without nobody
    monkeypatch.setattr(pwd, "getpwall", lambda: users)
    assert maker_for(owner) == Owner(8, owner.gid)
    users.pop()
    with pytest.raises(sq.EnvironmentProblem, match="only user"):
        maker_for(owner)


# --- Notes


def test_notes_are_kept_where_only_this_user_writes(folder, monkeypatch):
    for odd in ("others", "file"):
        place = folder / odd
        if odd == "file":
            place.mkdir()
            (place / "seriatim").write_text("")
        else:
            (place / "seriatim").mkdir(parents=True)
            (place / "seriatim").chmod(0o777)
        registry = Registry({"XDG_STATE_HOME": str(place)})
        assert registry._folder == Path(f"/var/tmp/seriatim-{os.geteuid()}/postgres")
    registry = Registry({"HOME": str(folder)})
    assert registry._folder == folder / ".local/state/seriatim/postgres"
    one = OwnData(new_id(), str(folder), 1, 2, "/tmp/seriatim-x")
    registry.note(one)
    assert Registry({"HOME": str(folder)}).find(one.data_id) == one
    assert registry.all() == [one]
    assert registry.find("../../x") is registry.find(None) is registry.find(new_id()) is None
    (registry._folder / one.data_id).write_text("{")
    assert registry.find(one.data_id) is None


def test_notes_of_folders_that_are_long_gone_are_forgotten(folder):
    registry = Registry()
    gone, there = (OwnData(new_id(), str(place), 1, 2) for place in (folder / "gone", folder))
    for one in (gone, there):
        registry.note(one)
        os.utime(registry._folder / one.data_id, (0, 0))
    assert registry.all() == [there]
    assert registry.find(gone.data_id) is None


@as_root
def test_a_home_of_somebody_else_has_no_notes_of_root(folder):
    home = folder / "home"
    home.mkdir()
    os.chown(home, STRANGER, STRANGER)
    assert folder not in Registry({"HOME": str(home)})._folder.parents
    assert list(home.iterdir()) == []
