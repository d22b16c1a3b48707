-- Purpose: the parts of a batch that are staged whole.
-- Locks: their rows.
-- Index: parts_pkey, staged_messages_of_part.
SELECT part_id, version, messages, (
    SELECT count(*) FROM {schema}.staged_messages AS message WHERE message.part_id = part.part_id
) AS found
FROM {schema}.parts AS part WHERE part_id = ANY (%(part_ids)s::bigint[]) FOR UPDATE
