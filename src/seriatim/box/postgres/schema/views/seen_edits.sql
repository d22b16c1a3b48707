-- Edits, for operators who see bodies.
CREATE OR REPLACE VIEW {schema}.seen_edits WITH (security_barrier) AS
SELECT edit.* FROM {schema}.edits AS edit
WHERE edit.entry_id IN (
    SELECT entry.entry_id FROM {schema}.entries AS entry
    WHERE entry.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[])
    UNION ALL
    SELECT gone.entry_id FROM {schema}.aside AS gone
    WHERE gone.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[])
    UNION ALL
    SELECT done.entry_id FROM {schema}.history AS done
    WHERE done.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[])
);
