-- Purpose: forget staged parts.
-- Locks: their rows.
-- Index: parts_pkey, staged_messages_of_part, staged_entries_of_part, staged_message_parts_of_part, staged_keys_of_part.
WITH gone AS (
    DELETE FROM {schema}.parts WHERE part_id = ANY (%(part_ids)s::bigint[]) RETURNING part_id
), messages AS (
    DELETE FROM {schema}.staged_messages USING gone WHERE staged_messages.part_id = gone.part_id
), beside AS (
    DELETE FROM {schema}.staged_message_parts USING gone WHERE staged_message_parts.part_id = gone.part_id
), keys AS (
    DELETE FROM {schema}.staged_keys USING gone WHERE staged_keys.part_id = gone.part_id
)
DELETE FROM {schema}.staged_entries USING gone WHERE staged_entries.part_id = gone.part_id
