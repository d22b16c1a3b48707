-- Give the next positions to committed events that have none, up to a limit; return whether the limit was reached.
-- One transaction at a time does that, and the next one sees its positions. So a reader of a position sees all lower
-- ones: an event that is committed late gets a position after those that were read.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.place_events(at_most integer) RETURNS boolean
AS $function$
#variable_conflict use_column
DECLARE
    through bigint;
    placed bigint;
BEGIN
    PERFORM {schema}.permit('see', '{}');
    IF NOT EXISTS (SELECT FROM {schema}.events WHERE position IS NULL) THEN
        RETURN FALSE;
    END IF;
    -- Positions of the lock's last holder are visible to the next statement, not to this one.
    SELECT one.last INTO through FROM {schema}.event_positions AS one FOR UPDATE;
    UPDATE {schema}.events AS event SET position = through + fresh.nth
    FROM (
        SELECT one.event_id, row_number() OVER (ORDER BY one.event_id) AS nth FROM (
            SELECT event_id FROM {schema}.events WHERE position IS NULL ORDER BY event_id LIMIT at_most
        ) AS one
    ) AS fresh
    WHERE event.event_id = fresh.event_id;
    GET DIAGNOSTICS placed = ROW_COUNT;
    UPDATE {schema}.event_positions SET last = through + placed WHERE placed > 0;
    RETURN placed = at_most;
END
$function$;
