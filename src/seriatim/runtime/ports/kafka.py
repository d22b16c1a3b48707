"""The source Kafka: takes the messages of a topic's partitions, which it assigns to itself; the box keeps the offsets."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from seriatim.errors import UsageError, shown
from seriatim.extras import need
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.text.typed import typed
from seriatim.pipeline.types.message import Property
from seriatim.runtime.ports.source import (
    Outcome,
    Promise,
    Source,
    SourceAway,
    Taken,
    id_of,
    made,
    properties_of,
    property_names,
)

need("kafka")

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition  # noqa: E402 -- the extra was asked for

from seriatim.endpoints.kafka import checked_options, reason_of  # noqa: E402

#: Seconds: for an answer about a topic, and how long it holds.
_ANSWER_S, _KNOWN_S = 5.0, 30.0
#: Bytes of messages that the client fetches before they are taken, of all partitions.
_FETCHED_KIB = 65_536
_STARTS = ("earliest", "latest")
_GIVEN = frozenset({"type", "content_type", "message_id"})


class KafkaSource(Source):
    """Takes from the partitions of a topic.

    Args:
        servers: ``HOST:PORT``, several with commas between them.
        topic: the topic.
        name: the name of the port, under which the box keeps its offsets; default: ``kafka-`` and the topic.
        type: the type of the messages; default: their header ``type`` or ``ce_type``, else the topic.
        properties: name → header; default: all headers that can be properties.
        start: where a new port begins: ``earliest`` or ``latest``. A partition that is added later begins at its beginning.
        options: further settings of librdkafka, such as ``security.protocol``.
    """

    kind = "kafka"
    promise = Promise(
        order="the messages of a partition come in order; offsets have gaps, so they are no sequence for Standard",
        keeps_order_over_a_crash=True,
        advice="Fifo on what the key is made of (source_key), or on source_partition",
    )

    @typed
    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        name: str | None = None,
        type: str | None = None,  # noqa: A002 -- as the text has it
        properties: Mapping[str, str] | None = None,
        start: str = "earliest",
        options: Mapping[str, str] | None = None,
    ) -> None:
        settings = checked_options(servers, topic, options)
        if start not in _STARTS:
            raise UsageError(f"start can't be {shown(start)}", remedy=f"one of {', '.join(_STARTS)}")
        self.name = name or f"kafka-{topic}"[:128]
        self.properties = None if properties is None else property_names(properties, "header")
        self._topic, self._type, self._start, self._place = topic, type, start, f"{servers}, topic {topic!r}"
        self._settings = settings | {
            "group.id": f"seriatim-{self.name}", "enable.auto.commit": False, "enable.auto.offset.store": False,
            "auto.offset.reset": "error", "queued.max.messages.kbytes": _FETCHED_KIB, "error_cb": self._is_wrong,
        }  # fmt: skip
        self._consumer: Any = None
        self._cluster = ""
        self._known: tuple[float, tuple[str, ...]] = (0.0, ())
        self._error: str | None = None

    def partitions(self) -> Sequence[str]:
        """The partitions of the topic, asked for twice a minute."""
        asked, known = self._known
        if known and self._consumer is not None and time.monotonic() - asked < _KNOWN_S:
            return known
        try:
            found = self._opened().list_topics(self._topic, timeout=_ANSWER_S)
        except KafkaException as error:
            raise SourceAway(reason_of(error.args[0]), where=self._place) from None
        topic = found.topics[self._topic]
        if topic.error is not None:
            raise SourceAway(reason_of(topic.error), where=self._place, remedy="create the topic, or name another")
        self._cluster = getattr(found, "cluster_id", None) or str(self._settings["bootstrap.servers"])
        known = tuple(f"{self._topic}/{number}" for number in sorted(topic.partitions))
        self._known = time.monotonic(), known
        return known

    def starts(self) -> Mapping[str, Any]:
        """Where its partitions end now, if it starts at the latest."""
        if self._start == "earliest":
            return {}
        try:
            return {one: self._watermarks(self._partition(one))[1] for one in self.partitions()}
        except KafkaException as error:
            raise SourceAway(reason_of(error.args[0]), where=self._place) from None

    def begin(self, partition: str, position: Any) -> None:
        one = self._partition(partition)
        try:
            one.offset = OFFSET_BEGINNING if position is None else self._checked(one, int(position))
            self._opened().incremental_assign([one])
        except KafkaException as error:
            raise SourceAway(reason_of(error.args[0]), where=self._place) from None

    def end(self, partition: str) -> None:
        """Take a partition away; the box has its offset."""
        if self._consumer is not None:
            one = self._partition(partition)
            with suppress(KafkaException):
                self._consumer.resume([one])  # the client remembers a pause, also when the partition comes back
            with suppress(KafkaException):
                self._consumer.incremental_unassign([one])

    def close(self) -> None:
        consumer, self._consumer, self._error = self._consumer, None, None
        if consumer is not None:
            consumer.close()

    def take(self, most: int, wait_s: float) -> list[Taken]:
        consumer = self._opened()
        try:
            first = consumer.poll(wait_s)
            if first is None:
                if self._error is not None:
                    raise SourceAway(self._error, where=self._place)
                return []
            self._error = None
            found = [first, *consumer.consume(most - 1, 0.0)] if most > 1 else [first]
        except KafkaException as error:
            raise SourceAway(reason_of(error.args[0]), where=self._place) from None
        return [self._taken(one) for one in found if not self._is_end(one)]

    def acknowledge(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing is to be done: the offset is committed with the messages."""

    def hold(self, partition: str) -> None:
        self._opened().pause([self._partition(partition)])

    def go_on(self, partition: str) -> None:
        self._opened().resume([self._partition(partition)])

    def _opened(self) -> Any:
        if self._consumer is None:
            self._error = None
            self._consumer = Consumer(self._settings)
        return self._consumer

    def _partition(self, partition: str) -> Any:
        return TopicPartition(self._topic, int(partition.rpartition("/")[2]))

    def _watermarks(self, partition: Any) -> tuple[int, int]:
        first, following = self._opened().get_watermark_offsets(partition, timeout=_ANSWER_S)
        return first, following

    def _checked(self, partition: Any, offset: int) -> int:
        """The offset from which to go on, if the partition has it: otherwise it isn't the partition that was read."""
        first, following = self._watermarks(partition)
        if offset > following:
            raise SourceAway(
                f"partition {partition.partition} ends at offset {following}, and {offset} was read: the topic was made anew",
                where=self._place,
                remedy="give the port another name",
            )
        if offset < first:
            text = f"partition {partition.partition} begins at offset {first}: {offset} to {first - 1} were deleted and not read"
            LOG.error("port_remark", port=self.name, error=text)
        return max(offset, first)

    def _is_wrong(self, error: Any) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN or error.fatal():  # noqa: SLF001 -- so named there
            self._error = reason_of(error)

    def _is_end(self, message: Any) -> bool:
        error = message.error()
        if error is None:
            return False
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 -- so named there
            raise SourceAway(reason_of(error), where=self._place)
        return True

    def _taken(self, message: Any) -> Taken:
        number, offset = message.partition(), message.offset()
        partition = f"{self._topic}/{number}"
        headers = {name: _text(value) for name, value in reversed(message.headers() or ())}
        context: dict[str, Property] = {
            **properties_of(headers, self.properties, _GIVEN),
            "source_partition": partition, "source_position": offset, "source_key": _text(message.key()),
            "source_id": headers.get("message_id") or headers.get("ce_id"),
        }  # fmt: skip
        kind = self._type or headers.get("type") or headers.get("ce_type") or self._topic
        # A topic that is made anew has the same offsets again, with other times.
        _, stamp = message.timestamp()
        message_id = id_of("kafka", self._cluster, self._topic, str(number), str(offset), str(stamp))
        content_type = headers.get("content_type") or headers.get("content-type")
        made_ = made(kind, message.value() or b"", context, message_id, content_type)
        return Taken(partition, made_, position=offset + 1)


def _text(value: bytes | str | None) -> str | None:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    return value
