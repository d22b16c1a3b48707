-- Events on record: what has happened to groups without being a message.

-- `first`..`last`: the numbers that it is about; NULL: none. `count`: how many messages or numbers it stands for. `at`: when
-- it happened, by the rules of time of the group. `operation_id`: the operator's action that caused it. `position`: its place
-- in the order in which exporters read; given by the first reader that comes after its commit (`place_events`).
CREATE TABLE {schema}.events (
    event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    position bigint,
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    incarnation integer NOT NULL,
    kind text NOT NULL CHECK (kind IN (
        'hole_opened', 'hole_overdue', 'hole_skipped', 'hole_filled', 'timed_out', 'closed', 'suspended', 'resumed',
        'conflict', 'restart_suspected', 'void'
    )),
    first bigint,
    last bigint,
    count bigint NOT NULL DEFAULT 1 CHECK (count > 0),
    at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    operation_id bigint,
    CHECK ((first IS NULL) = (last IS NULL))
);
CREATE INDEX events_of_group ON {schema}.events (queue_id, group_key, event_id);
CREATE UNIQUE INDEX events_by_position ON {schema}.events (position) WHERE position IS NOT NULL;
CREATE INDEX events_without_position ON {schema}.events (event_id) WHERE position IS NULL;

-- The last position that was given; one row.
CREATE TABLE {schema}.event_positions (
    single boolean PRIMARY KEY DEFAULT TRUE CHECK (single),
    last bigint NOT NULL DEFAULT 0
);
INSERT INTO {schema}.event_positions DEFAULT VALUES;

-- `events_for`: how long events are kept.
ALTER TABLE {schema}.keeping ADD COLUMN events_for interval NOT NULL DEFAULT '30 days' CHECK (events_for >= '0');
CREATE OR REPLACE VIEW {schema}.seen_keeping WITH (security_barrier) AS SELECT * FROM {schema}.keeping;

-- Write down events of groups that the caller has judged in this transaction, under their locks; the arrays are as long as
-- there are events. A suspension or resumption that was asked for while its group was locked has the operation that asked.
CREATE FUNCTION {schema}.record_events(
    of_queue integer, of_groups text[], its_kinds text[], its_firsts bigint[], its_lasts bigint[], its_counts bigint[],
    its_times bigint[], of_operation bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    INSERT INTO {schema}.events (queue_id, group_key, incarnation, kind, first, last, count, at, operation_id)
    SELECT
        of_queue, told.group_key, coalesce(known.incarnation, 0), told.kind, told.first, told.last, told.count,
        to_timestamp(told.at / 1e6),
        coalesce(of_operation, CASE WHEN told.kind IN ('suspended', 'resumed') AND told.first IS NULL THEN (
            SELECT max(log.operation_id) FROM {schema}.operator_log AS log
            JOIN {schema}.queues AS place ON place.queue = log.queue
            WHERE place.queue_id = of_queue AND log.group_key = told.group_key
                AND log.action = CASE told.kind WHEN 'suspended' THEN 'suspend' ELSE 'resume' END
        ) END)
    FROM unnest(of_groups, its_kinds, its_firsts, its_lasts, its_counts, its_times)
        WITH ORDINALITY AS told (group_key, kind, first, last, count, at, nth)
    LEFT JOIN {schema}.known_groups AS known ON known.queue_id = of_queue AND known.group_key = told.group_key
    ORDER BY told.nth;
END
$function$;

-- Give the next positions to committed events that have none, at most so many; answers whether there were as many. One
-- transaction at a time does that, and the next one sees what it has given. So whoever sees a position sees all lower ones:
-- an event that is committed late gets a position behind those that were read.
CREATE FUNCTION {schema}.place_events(at_most integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    through bigint;
    placed bigint;
BEGIN
    PERFORM {schema}.permit('see', '{{}}');
    IF NOT EXISTS (SELECT FROM {schema}.events WHERE position IS NULL) THEN
        RETURN FALSE;
    END IF;
    -- What the holder of the lock has given is seen by the next statement, not by this one.
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

CREATE VIEW {schema}.seen_events WITH (security_barrier) AS
SELECT * FROM {schema}.events WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
