"""The properties that a port gives a message that it has taken in: where the message stood in its source.

A type may declare these names as its own properties.
"""

from __future__ import annotations

from collections.abc import Mapping

#: `source_port`: the port's name. `source_partition`: Kafka's ``TOPIC/PARTITION``, the queue of RabbitMQ, the sender of HL7 (MSH-3, MSH-4).
#: `source_position`: Kafka's offset, the sequence number of HL7 (MSH-13). `source_id`: the id that the sender has given. `source_key`:
#: Kafka's key, RabbitMQ's routing key. `id_reused`: the sender has given this id to another body before. `redelivered`: RabbitMQ may have
#: delivered it before. `refused`: why the box refused the message as the source has it.
SOURCE: Mapping[str, str] = {
    "source_port": "string",
    "source_partition": "string",
    "source_position": "long",
    "source_id": "string",
    "source_key": "string",
    "id_reused": "boolean",
    "redelivered": "boolean",
    "refused": "string",
}
