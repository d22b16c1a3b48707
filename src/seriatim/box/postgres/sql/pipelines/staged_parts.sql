-- Purpose: the parts of a batch, and whether they are staged whole: a crash of the server leaves only what is in the spool.
-- Locks: their rows.
-- Index: parts_pkey, staged_arrivals_of_part, staged_messages_of_part, staged_entries_of_part.
SELECT part_id, number, version, messages, messages = (
    SELECT coalesce(sum(arrival.count), 0) FROM {schema}.staged_arrivals AS arrival WHERE arrival.part_id = part.part_id
) + (
    SELECT count(*) FROM {schema}.staged_messages AS message WHERE message.part_id = part.part_id
) AND entries = (
    SELECT count(*) FROM {schema}.staged_entries AS entry WHERE entry.part_id = part.part_id
) AS is_whole
FROM {schema}.parts AS part WHERE part_id = ANY (%(part_ids)s::bigint[]) FOR UPDATE
