-- A result that comes to a gate calls nobody who waits there: it can't leave before its place is closed, and what closes a place calls
-- (`look_at_gate`). Both calls in one transaction woke two receivers for one result, and the second found nothing.
DO $all$
DECLARE
    one record;
    body text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('take_in_one_on_way', $q$    stamped bigint;
$q$, $q$    stamped bigint;
    way record;
$q$),
            ('take_in_one_on_way', $q$    IF by_itself THEN
        arrival := nextval$q$, $q$    SELECT * INTO way FROM {schema}.place_at_gate(of_queue, of_context::jsonb);
    IF by_itself THEN
        arrival := nextval$q$),
            ('take_in_one_on_way', $q$VALUES (at_location, 1, ARRAY[of_queue])
        RETURNING$q$, $q$VALUES (
            at_location, 1, CASE WHEN way.gate_id = of_queue THEN ARRAY[]::integer[] ELSE ARRAY[of_queue] END
        ) RETURNING$q$),
            ('take_in_one_on_way', $q$by_subscriptions, stamped, came
    FROM (SELECT) AS one LEFT JOIN LATERAL {schema}.place_at_gate(of_queue, of_context::jsonb) AS way ON TRUE;$q$,
            $q$by_subscriptions, stamped, came;$q$),
            ('take_in', $q$ARRAY(SELECT DISTINCT unnest(entry_queues)) FROM numbered$q$, $q$ARRAY(
            SELECT DISTINCT wanted.queue_id FROM unnest(entry_queues) AS wanted (queue_id)
            WHERE NOT on_way OR NOT EXISTS (
                SELECT FROM {schema}.ways AS way WHERE way.queue_id = wanted.queue_id AND way.gate_id = way.queue_id
            )
        ) FROM numbered$q$)
        ) AS wanted (name, old, new)
    LOOP
        body := pg_get_functiondef(('{schema}.' || one.name)::regproc);
        IF (length(body) - length(replace(body, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in %: %', one.name, one.old;
        END IF;
        EXECUTE replace(body, one.old, one.new);
    END LOOP;
END
$all$;
