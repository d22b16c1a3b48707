-- Purpose: of the next faults, delete those that are older than some moment; but not the newest of a message that is in
-- its queue, a dead letter or history.
-- Locks: the deleted rows, which no other transaction needs.
-- Index: faults_pkey, faults_of_entry, entries_pkey, aside_pkey, history_of_message.
WITH looked AS MATERIALIZED (
    SELECT fault_id, at, queue_id, entry_id, arrival_id, position FROM {schema}.faults
    WHERE fault_id > %(after)s ORDER BY fault_id LIMIT %(batch)s
), gone AS (
    DELETE FROM {schema}.faults AS fault USING looked
    WHERE fault.fault_id = looked.fault_id AND looked.at < %(before)s AND (
        EXISTS (
            SELECT FROM {schema}.faults AS newer
            WHERE newer.entry_id = looked.entry_id AND newer.fault_id > looked.fault_id
        ) OR NOT (
            EXISTS (SELECT FROM {schema}.entries AS one WHERE one.entry_id = looked.entry_id)
            OR EXISTS (SELECT FROM {schema}.aside AS one WHERE one.entry_id = looked.entry_id)
            OR EXISTS (
                SELECT FROM {schema}.history AS one
                WHERE one.arrival_id = looked.arrival_id AND one.position = looked.position
                    AND one.queue_id = looked.queue_id
            )
        )
    )
    RETURNING fault.fault_id
)
SELECT
    (SELECT count(*) FROM looked WHERE at < %(before)s) AS looked,
    (SELECT coalesce(max(fault_id), 0) FROM looked) AS after,
    (SELECT count(*) FROM gone) AS faults
