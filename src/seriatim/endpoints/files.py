"""The file port: writes each message's body into its own file, at least once, under a name that stays the same."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from pathlib import Path
from urllib.parse import quote

from seriatim.endpoints.delivery import Delivered, Transaction, given_messages, in_hand
from seriatim.errors import Transient, UsageError, shown
from seriatim.pipeline.text.typed import typed
from seriatim.pipeline.types.message import Received

#: A name has 255 bytes at most; one that would be longer than the first ends with a digest.
_LONGEST, _KEPT = 200, 150
_SUFFIX = re.compile(r"(\.[A-Za-z0-9_-]{1,16}){0,3}", re.ASCII)


class FilePort:
    """A handler that writes files: ``FOLDER/GROUP/INCARNATION-ORDINAL.SUFFIX``, for queues without groups ``FOLDER/ID.SUFFIX``. A file
    appears only when it is complete. Names sort in the order of the group.
    """

    @typed
    def __init__(self, folder: str | Path, *, suffix: str = "") -> None:
        self._folder = Path(folder).absolute()
        if not _SUFFIX.fullmatch(suffix):
            raise UsageError(f"suffix can't be {shown(suffix)}", remedy="such as .json")
        try:
            is_there = self._folder.is_dir()
        except OSError as error:
            raise UsageError(
                f"the folder can't be: {error.strerror}", where=shown(self._folder), remedy="name another"
            ) from None
        if not is_there:
            # A missing mount: files written beneath it would be hidden when it comes back.
            raise UsageError("the folder does not exist", where=str(self._folder), remedy="create it")
        self._suffix = suffix

    def __call__(self, received: Received | Delivered, tx: Transaction) -> None:
        """Write the given messages, one after another; each is on the disk when it returns."""
        delivered = in_hand(tx)
        for message in given_messages(received):
            path = self._path(delivered, message)
            try:
                self._write(path, message.body)
            except OSError as error:
                raise Transient(f"the file can't be written: {error.strerror}", where=str(path)) from error

    def _path(self, delivered: Delivered, message: Received) -> Path:
        if delivered.group is None or message.ordinal is None:
            return self._folder / (_name(message.message_id) + self._suffix)
        number = f"{delivered.incarnation:06d}-{message.ordinal:019d}{self._suffix}"
        return self._folder / _name(delivered.group) / number

    def _write(self, path: Path, body: bytes) -> None:
        if path.parent != self._folder and not path.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
            _keep(self._folder)
        # Processes in containers may have the same number, and share the folder.
        draft = path.parent / f".{uuid.uuid4().hex}.part"
        try:
            with draft.open("wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        _keep(path.parent)


def _name(text: str) -> str:
    """Return a text as the name of a file: different texts have different names, and no name leads elsewhere or is hidden."""
    quoted = quote(text, safe="").replace("~", "%7E")
    quoted = re.sub(r"^\.", "%2E", quoted)
    if len(quoted) <= _LONGEST:
        return quoted
    return f"{quoted[:_KEPT]}~{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _keep(folder: Path) -> None:
    """Sync a folder, so that its names are on the disk."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
