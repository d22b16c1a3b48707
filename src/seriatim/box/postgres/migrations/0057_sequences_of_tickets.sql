-- Queues whose messages are in the order of the tickets of their location, by numbers: `sequence` is the position of the ticket.

-- The queues among these that count their messages by group: they are unordered, and have a gate; NULL: none.
CREATE FUNCTION {schema}.counting(of_queues integer[]) RETURNS integer[]
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $function$
BEGIN
    RETURN (
        SELECT array_agg(known.queue_id) FROM {schema}.queues AS known
        WHERE known.queue_id = ANY (of_queues) AND known.definition #>> '{{policy,name}}' = 'unordered'
            AND known.definition ->> 'gate' IS NOT NULL
    );
END
$function$;

-- As in 0052: the queues among these whose entries get a number at the commit; NULL: none. Either a place, or their sequence.
CREATE OR REPLACE FUNCTION {schema}.numbering(of_queues integer[]) RETURNS integer[]
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $function$
BEGIN
    RETURN (
        SELECT array_agg(known.queue_id) FROM {schema}.queues AS known
        WHERE known.queue_id = ANY (of_queues) AND (
            known.definition #>> '{{policy,name}}' = 'unordered' AND known.definition ->> 'gate' IS NOT NULL
            OR known.definition #>> '{{policy,name}}' = 'standard' AND known.definition ->> 'sequence' = 'ticket'
        )
    );
END
$function$;

-- Entries of arrivals get the positions of their tickets as sequences, in these queues. A location's positions go on by one over its
-- epochs, which have `last_number` numbers each.
CREATE FUNCTION {schema}.number_sequences(of_queues integer[], of_arrivals bigint[]) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    UPDATE {schema}.entries AS entry SET sequence = run.epoch * place.last_number + run.number + entry.position
    FROM (SELECT DISTINCT unnest(of_arrivals) AS arrival_id) AS one
    JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[one.arrival_id])
    JOIN {schema}.locations AS place ON place.location = run.location
    WHERE entry.arrival_id = ANY (ARRAY[one.arrival_id]) AND (entry.queue_id = ANY (of_queues)) IS TRUE;
END
$function$;

-- These functions tell the two apart; the rest of each stays as it is.
DO $all$
DECLARE
    one record;
    known oid;
    before text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('number_places', $q$    ordinals bigint[];
BEGIN
$q$, $q$    ordinals bigint[];
    counted integer[] := {schema}.counting(of_queues);
BEGIN
    IF (counted @> of_queues) IS NOT TRUE THEN
        PERFORM {schema}.number_sequences(
            ARRAY(SELECT unnest(of_queues) EXCEPT SELECT unnest(counted)), of_arrivals
        );
    END IF;
$q$),
            ('number_places', $q$entry.queue_id = ANY (of_queues)$q$, $q$entry.queue_id = ANY (counted)$q$),
            ('enter', $q$    ordinals bigint[];
BEGIN
    IF numbered_queues IS NOT NULL AND stamps IS NOT NULL THEN
$q$, $q$    ordinals bigint[];
    counted integer[];
BEGIN
    IF numbered_queues IS NOT NULL AND stamps IS NOT NULL THEN
        counted := {schema}.counting(numbered_queues);
    END IF;
    IF counted IS NOT NULL THEN
$q$),
            ('enter', $q$entry.queue_id = ANY (numbered_queues)$q$, $q$entry.queue_id = ANY (counted)$q$),
            ('enter', $q$        PERFORM {schema}.number_at_commit(numbered_queues, arrival_ids);
$q$, $q$        PERFORM {schema}.number_at_commit(numbered_queues, arrival_ids);
    ELSIF numbered_queues IS NOT NULL AND (counted @> numbered_queues) IS NOT TRUE THEN
        PERFORM {schema}.number_sequences(
            ARRAY(SELECT unnest(numbered_queues) EXCEPT SELECT unnest(counted)), arrival_ids
        );
$q$),
            ('wrong_entries', $q$ AND known.definition ->> 'gate' IS NOT NULL THEN 'fifo'$q$, $q$ AND known.definition ->> 'gate' IS NOT NULL THEN 'fifo'
                WHEN known.definition #>> '{{policy,name}}' = 'standard' AND known.definition ->> 'sequence' = 'ticket' THEN 'fifo'$q$)
        ) AS wanted (name, old, new)
    LOOP
        SELECT fn.oid INTO STRICT known FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = one.name;
        before := pg_get_functiondef(known);
        IF (length(before) - length(replace(before, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in %: %', one.name, one.old;
        END IF;
        EXECUTE replace(before, one.old, one.new);
    END LOOP;
END
$all$;
