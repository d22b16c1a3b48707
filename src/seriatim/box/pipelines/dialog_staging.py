"""Send a pipeline's batches in dialogs, each message once: one dialog for each key, begun when it is first needed.

Tasks stage parts, as for queues. A merge sends the messages of some keys in each transaction, and records the batch
with each key; the last transaction records it for the whole batch. So an interrupted merge goes on where it stopped,
and a batch of many dialogs doesn't lock all of them at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from seriatim.box.connection.access import Transaction
from seriatim.box.connection.connections import DEFAULT_SCHEMA
from seriatim.box.definitions.definition import Definitions
from seriatim.box.notice import KeptOut
from seriatim.box.pipelines.incoming import Incoming, fitting, messages_of, storable
from seriatim.box.pipelines.open_part import OpenPart
from seriatim.box.pipelines.staging import StagedPart, Staging
from seriatim.box.postgres.statements import statement
from seriatim.errors import NotFound, UsageError
from seriatim.kernel.groups.sequence import key_problem
from seriatim.kernel.values.outcome import REASONS
from seriatim.pipeline.bodies.property_values import problem_text
from seriatim.pipeline.declared.contract import DEFAULT
from seriatim.pipeline.declared.location import DEFAULT_LOCATION, checked_location
from seriatim.pipeline.text.name import checked_name
from seriatim.pipeline.text.section import likely

_MESSAGE_TYPES = ("int8", "int8", "text", "text", "text", "text", "text", "text", "bytea", "int4", "text", "int4")
_KEY_TYPES = ("int8", "int8", "text", "text")
#: The most dialogs that a transaction locks; each lock is a place in a table of the server's with a fixed size.
_DIALOGS = 1000


@dataclass(frozen=True, slots=True)
class Speaker:
    #: The service where they begin; its queue gets the answers.
    from_service: str
    #: The other service; messages wait while it doesn't exist.
    to_service: str
    contract: str = DEFAULT

    def __post_init__(self) -> None:
        checked_name(self.from_service, "a service's name")
        checked_name(self.to_service, "a service's name")
        checked_name(self.contract, "a contract's name")


class DialogStaging(Staging):
    def __init__(
        self,
        dsn: str | None = None,
        schema: str = DEFAULT_SCHEMA,
        *,
        speaker: Speaker,
        incoming: Incoming,
        fence: int = 0,
    ) -> None:
        if not incoming.ordered:
            raise UsageError("there is no key for the dialogs", remedy="name the column that has it")
        super().__init__(dsn, schema, incoming=incoming, fence=fence)
        self._speaker = speaker
        with self._access.transaction() as transaction:
            self._check_services(transaction.definitions())

    def merge(self, writer: str, batch: int, parts: Sequence[StagedPart]) -> int:
        """Send the parts of a batch, in their order; does nothing if the batch was sent already."""
        part_ids = [part_id for part_id, _ in parts]
        judged: int | None = None
        before = 0
        while True:
            with self._access.transaction() as transaction:
                last = self._lock_writer(transaction, writer)
                if batch <= last:
                    transaction.do("drop_parts", part_ids=part_ids)
                    return before
                transaction.do("hold_definitions")
                definitions = transaction.definitions()
                self._check_services(definitions)
                self._whole(transaction, parts)
                if judged != definitions.version:
                    transaction.do("judge_sends", of_parts=part_ids, by_contract=self._speaker.contract)
                keys, messages = self._send(transaction, writer, batch, part_ids)
                is_whole = keys < _DIALOGS
                if is_whole:
                    unsent = transaction.value("end_sends", of_parts=part_ids)
                    messages += unsent
                    if unsent:
                        transaction.notice(KeptOut())
                    stray = transaction.rows("stray_parts", writer=writer, batch=batch)
                    if stray:
                        transaction.do("drop_parts", part_ids=[part_id for (part_id,) in stray])
                named = {"writer": writer, "batch": batch if is_whole else last, "version": definitions.version}
                transaction.do("record_batch", messages=messages, **named)
            judged = definitions.version
            before += messages
            if is_whole:
                return before

    def _send(self, transaction: Transaction, writer: str, batch: int, part_ids: list[int]) -> tuple[int, int]:
        """Send the messages of the next keys; return the numbers of keys and of messages."""
        keys, messages = transaction.one(
            "send_staged",
            of_writer=writer,
            of_batch=batch,
            of_parts=part_ids,
            from_service=self._speaker.from_service,
            to_service=self._speaker.to_service,
            by_contract=self._speaker.contract,
            how_many=_DIALOGS,
        )
        return int(keys), int(messages)

    def _check_services(self, definitions: Definitions) -> None:
        name, contract = self._speaker.from_service, self._speaker.contract
        if name not in definitions.services or definitions.services[name].queue is None:
            remedy = likely(name, definitions.services) or "a dialog begins at a service of this box: define it"
            raise NotFound(f"there is no service {name!r}", remedy=remedy)
        if contract not in definitions.contracts:
            remedy = likely(contract, definitions.contracts) or "define it"
            raise NotFound(f"there is no contract {contract!r}", remedy=remedy)

    def _stage(
        self, part: OpenPart, rows: pa.RecordBatch, made_up: Callable[[int], str], definitions: Definitions
    ) -> None:
        """Stage rows behind the earlier ones, with their keys, without routing."""
        placed = messages_of(rows, self._incoming, made_up)
        messages, keys = [], []
        part_id, before = part.part_id, part.messages
        placed_rows = zip(placed.messages, placed.groups, placed.problems, strict=True)
        for place, (message, group, why) in enumerate(placed_rows, before):
            key = str(group) if isinstance(group, int) else group
            reason = key_problem(key)
            location, wrong = _location(message.context)
            problem = why or wrong or (REASONS[reason] if reason else None)
            # Only for messages that can't be sent; the bodies of the others are complete.
            kept, _ = fitting(storable({name: value for name, value in message.context.items() if name != "location"}))
            fields = (
                message.message_id,
                message.type,
                location,
                message.content_type,
                json.dumps(kept),
                None,
                message.body,
            )
            messages.append((part_id, place, *fields, 1, None, None))
            keys.append((part_id, place, None if problem else key, problem))
        _copy(part.transaction, "stage_messages", _MESSAGE_TYPES, messages)
        _copy(part.transaction, "stage_keys", _KEY_TYPES, keys)
        part.messages += len(messages)


def _copy(transaction: Transaction, name: str, types: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with transaction.connection.cursor() as cursor, cursor.copy(statement(name, transaction.schema)) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)


def _location(context: Mapping[str, Any]) -> tuple[str, str | None]:
    """The location of a message, and the problem with its location, if any."""
    try:
        return checked_location(context.get("location") or DEFAULT_LOCATION), None
    except UsageError as error:
        return DEFAULT_LOCATION, problem_text(f"column 'location': {error.what} ({error.remedy})")
