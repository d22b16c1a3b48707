-- Purpose: forget staged parts, with their messages, wherever these are.
-- Locks: their rows.
-- Index: parts_pkey, staged_arrivals_of_part, spool_pkey, staged_messages_of_part, staged_entries_of_part,
-- staged_message_parts_of_part, staged_keys_of_part.
WITH gone AS (
    DELETE FROM {schema}.parts WHERE part_id = ANY (%(part_ids)s::bigint[]) RETURNING part_id
), arrivals AS (
    DELETE FROM {schema}.staged_arrivals USING gone WHERE staged_arrivals.part_id = gone.part_id RETURNING arrival_id
), bodies AS (
    DELETE FROM {schema}.spool USING arrivals WHERE spool.arrival_id = arrivals.arrival_id
), messages AS (
    DELETE FROM {schema}.staged_messages USING gone WHERE staged_messages.part_id = gone.part_id
), beside AS (
    DELETE FROM {schema}.staged_message_parts USING gone WHERE staged_message_parts.part_id = gone.part_id
), keys AS (
    DELETE FROM {schema}.staged_keys USING gone WHERE staged_keys.part_id = gone.part_id
)
DELETE FROM {schema}.staged_entries USING gone WHERE staged_entries.part_id = gone.part_id
