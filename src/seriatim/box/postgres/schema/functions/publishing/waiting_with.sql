-- Return for each entry with a key the id of the message that waits with it in the queue; NULL: none does. A message
-- waits until a transaction or a lease has it in hand, and again when it is put back. Its settings, and those of
-- `claim_keys`, are the caller's.
CREATE OR REPLACE FUNCTION {schema}.waiting_with(of_queues integer[], keys text[], of_space text) RETURNS text[]
AS $function$
DECLARE
    waiting text[];
BEGIN
    WITH asked AS MATERIALIZED (
        SELECT given.place, given.queue_id, known.message_id, entry.entry_id, entry.group_key
        FROM unnest(of_queues, keys) WITH ORDINALITY AS given (queue_id, unique_key, place)
        -- One by one, whatever sizes the server takes the tables for: see `turn_entries`.
        LEFT JOIN LATERAL (
            SELECT * FROM {schema}.unique_keys AS one
            WHERE one.queue_id = given.queue_id AND one.id_space = of_space AND one.unique_key = given.unique_key
            OFFSET 0
        ) AS known ON TRUE
        LEFT JOIN LATERAL (
            SELECT one.entry_id, one.group_key FROM {schema}.entries AS one
            WHERE one.arrival_id = known.arrival_id AND one.position = known.position
                -- Not by an index of the queue.
                AND (one.queue_id = known.queue_id AND one.status IN ('arrived', 'held', 'queued')) IS TRUE
            OFFSET 0
        ) AS entry ON TRUE
    ), in_hand AS MATERIALIZED (
        SELECT (held.classid::bigint << 32) | held.objid::bigint AS key
        FROM pg_locks AS held
        WHERE EXISTS (SELECT FROM asked WHERE entry_id IS NOT NULL)
            AND held.locktype = 'advisory' AND held.objsubid = 1 AND held.granted AND held.mode = 'ShareLock'
            AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )
    SELECT array_agg(
        CASE WHEN asked.entry_id IS NOT NULL
            AND NOT EXISTS (
                SELECT FROM in_hand
                WHERE in_hand.key IN (
                    {schema}.in_hand_lock(asked.entry_id), {schema}.group_in_hand_lock(asked.queue_id, asked.group_key)
                )
            )
            AND NOT EXISTS (
                SELECT FROM {schema}.leases AS lease
                WHERE lease.queue_id = asked.queue_id AND asked.entry_id = ANY (lease.entry_ids)
            )
        THEN asked.message_id END ORDER BY asked.place
    ) INTO waiting
    FROM asked;
    RETURN waiting;
END
$function$;
