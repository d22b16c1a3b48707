-- Purpose: delete the content of a part, to stage it again.
-- Locks: its rows.
-- Index: staged_messages_of_part, staged_entries_of_part, staged_message_parts_of_part.
WITH messages AS (
    DELETE FROM {schema}.staged_messages WHERE part_id = %(part_id)s
), beside AS (
    DELETE FROM {schema}.staged_message_parts WHERE part_id = %(part_id)s
)
DELETE FROM {schema}.staged_entries WHERE part_id = %(part_id)s
