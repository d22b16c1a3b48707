"""What a link over HTTPS is told where its address or its files are wrong: before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

import seriatim as sq
from seriatim.box.links.certificates import CertificateFiles, public_key_of
from seriatim.box.links.https_carrier import HttpsCarrier
from seriatim.pipeline.files.json_form import from_json, to_json
from tests.certificates import Authority, Files, openssl

_FILES = {"certificate": "/c.pem", "key": "/c.key", "authority": "/a.pem"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates")).issued("north")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "needs one address"),
        ({"url": "https://south", "dsn": "host=south", **_FILES}, "has two addresses"),
        ({"url": "http://south", **_FILES}, "url can't be"),
        ({"url": "https://", **_FILES}, "url can't be"),
        ({"url": "https://south:99999", **_FILES}, "url can't be"),
        ({"url": "https://south/box", **_FILES}, "url can't be"),
        ({"url": "https://south?a=b", **_FILES}, "url can't be"),
        ({"url": "https://so uth", **_FILES}, "url can't be"),
        ({"url": "https://me:secret@south", **_FILES}, "names a user"),
        ({"url": "https://south"}, "certificate can't be None"),
        ({"url": "https://south", **_FILES, "key": "north.key"}, "key can't be 'north.key'"),
        ({"url": "https://south", **_FILES, "insecure": True}, "insecure is for a dsn"),
        ({"url": "https://south", **_FILES, "schema": "other"}, "schema is for a dsn"),
        ({"dsn": "host=south", "authority": "/a.pem"}, "authority is for a url"),
    ],
)
def test_a_link_whose_address_is_wrong_is_refused(given, told):
    with pytest.raises(sq.UsageError, match=told) as caught:
        sq.Link("south", **given)
    assert caught.value.remedy
    assert "secret" not in str(caught.value)


def test_a_link_is_stored_as_it_was_declared():
    paths = {name: Path(path) for name, path in _FILES.items()}
    declared = sq.Link("south", url="https://${SOUTH}:8471", **paths)
    assert declared == sq.Link("south", url="https://${SOUTH}:8471", **_FILES)
    assert from_json(sq.Link, to_json(declared)) == declared


def test_variables_are_read_by_who_transmits(files: Files):
    link = sq.Link("south", url="https://${SOUTH}", **{**files.as_link(), "key": "${FOLDER}/north.key"})
    HttpsCarrier(link, {"SOUTH": "[::1]:8471", "FOLDER": str(Path(files.key).parent)}).close()
    for environment, told in (
        ({"SOUTH": "x"}, "names ${FOLDER}, which isn't set"),
        ({"SOUTH": "x/y", "FOLDER": "/"}, "url can't be"),
    ):
        with pytest.raises(sq.UsageError) as caught:
            HttpsCarrier(link, environment)
        assert told in str(caught.value)


def test_files_that_cant_be_used_are_named(files: Files, tmp_path):
    other = Authority(tmp_path).issued("other")
    open_key, encrypted = tmp_path / "open.key", tmp_path / "encrypted.key"
    open_key.write_bytes(Path(files.key).read_bytes())
    open_key.chmod(0o644)
    openssl("pkey", "-in", files.key, "-aes256", "-passout", "pass:abcd", "-out", encrypted)
    encrypted.chmod(0o600)
    for change, told in (
        ({"certificate": str(tmp_path / "none.pem")}, "none.pem can't be read: No such file"),
        ({"authority": str(tmp_path)}, "can't be read: Is a directory"),
        ({"authority": files.key}, "north.key has no certificate in it"),
        ({"certificate": files.key}, "north.key can't be used"),
        ({"key": other.key}, "other.key doesn't belong to the certificate"),
        ({"key": str(open_key)}, "open.key has a private key in it that others can read"),
        ({"key": str(encrypted)}, "encrypted.key is encrypted"),
    ):
        wrong = CertificateFiles(**{**files.as_link(), **change}, place="link 'south'")
        for make in (wrong.for_client, wrong.for_server):
            with pytest.raises(sq.EnvironmentProblem, match=told) as caught:
                make()
            assert (caught.value.where, bool(caught.value.remedy)) == ("link 'south'", True)


def test_bytes_that_are_no_certificate_have_no_key():
    for wrong in (b"", b"\x30", b"\x30\x03\x30\x01\x02", b"\x30\x84\xff\xff\xff\xff", b"\x30\x80\x00\x00", bytes(64)):
        with pytest.raises(ValueError, match="no certificate"):
            public_key_of(wrong)
