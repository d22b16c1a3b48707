-- Lock sessions, in one order for all; unknown ones begin at `floors`. The arrays are sorted, without repetitions.
-- `patience_ms`: how long another transaction may keep a session, until an error names this table; NULL: as the caller's session says. `closed_before`:
-- of a queue whose old sessions are closed, the key before which no session takes messages any more.
-- is: own path, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_lock(
    of_queues integer[], of_sessions text[], floors bigint[], patience_ms integer,
    OUT queue_id integer, OUT session text, OUT through bigint, OUT over_through bigint, OUT closed_before text
) RETURNS SETOF record
AS $function$
#variable_conflict use_column
DECLARE
    before text := current_setting('lock_timeout');
BEGIN
    -- Before the limit: who waits for the whole table, as while it is rewritten, waits for no other sender.
    LOCK TABLE {schema}.region_sessions IN ROW EXCLUSIVE MODE;
    PERFORM set_config('lock_timeout', coalesce(patience_ms::text, before), TRUE);
    BEGIN
        INSERT INTO {schema}.region_sessions AS known (queue_id, session, through)
        SELECT given.queue_id, given.session, given.through
        FROM unnest(of_queues, of_sessions, floors) WITH ORDINALITY AS given (queue_id, session, through, nth) ORDER BY nth
        ON CONFLICT DO NOTHING;
        RETURN QUERY
            SELECT known.queue_id, known.session, known.through, known.over_through,
                CASE WHEN known.session < regional.closed_before THEN regional.closed_before END
            FROM unnest(of_queues, of_sessions) AS given (queue_id, session)
            JOIN {schema}.region_sessions AS known
                ON known.queue_id = ANY (ARRAY[given.queue_id]) AND known.session = ANY (ARRAY[given.session])
            JOIN {schema}.region_queues AS regional ON regional.queue_id = ANY (ARRAY[given.queue_id])
            ORDER BY known.queue_id, known.session
            FOR UPDATE OF known;
    EXCEPTION WHEN lock_not_available THEN
        RAISE EXCEPTION USING ERRCODE = 'lock_not_available', MESSAGE = SQLERRM, TABLE = 'region_sessions';
    END;
    PERFORM set_config('lock_timeout', before, TRUE);
END
$function$;
