-- Purpose: delete edits of messages that are in no queue any more.
-- Locks: the rows.
-- Index: entries_pkey, aside_pkey, for each edit; none for history, which is searched by queue.
DELETE FROM {schema}.edits AS edited
WHERE NOT EXISTS (SELECT FROM {schema}.entries AS one WHERE one.entry_id = edited.entry_id)
    AND NOT EXISTS (SELECT FROM {schema}.aside AS one WHERE one.entry_id = edited.entry_id)
    AND NOT EXISTS (
        SELECT FROM {schema}.faults AS fault JOIN {schema}.history AS one USING (arrival_id, position)
        WHERE fault.entry_id = edited.entry_id AND one.entry_id = edited.entry_id
    )
