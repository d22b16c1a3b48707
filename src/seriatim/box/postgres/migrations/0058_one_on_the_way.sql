-- One message on the way to a gate is taken in by a function of its own, as any other is by `take_in_one`.

-- `take_in_one`, for a message that carries an origin, or comes into a queue that leads to a gate, or is one: its entry gets its place.
-- The properties of a message from a role are looked at without an origin that it may carry, as in `permit_incoming`. Messages that are
-- numbered when they come in go by `take_in`.
--
-- It is made of that one's text; what is made first has its name only, by which a box is known to have the function.
CREATE FUNCTION {schema}.take_in_one_on_way() RETURNS void LANGUAGE sql AS '';
DO $all$
DECLARE
    body text := pg_get_functiondef('{schema}.take_in_one'::regproc);
    one record;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ($q$.take_in_one($q$, $q$.take_in_one_on_way($q$),
            (
                $q$at_location, of_content_type, of_context::jsonb,$q$,
                $q$at_location, of_content_type, {schema}.without_origin(of_context::jsonb),$q$
            ),
            ($q$    INSERT INTO {schema}.entries (
        queue_id,$q$, $q$    INSERT INTO {schema}.entries (
        gate_id, origin_group, origin_number, status, queue_id,$q$),
            ($q$    ) VALUES (
        of_queue, of_group,$q$, $q$    ) SELECT
        way.gate_id, way.origin_group, way.origin_number, CASE WHEN way.gate_id = of_queue THEN 'placed' ELSE 'arrived' END,
        of_queue, of_group,$q$),
            ($q$by_subscriptions, stamped, came
    );$q$, $q$by_subscriptions, stamped, came
    FROM (SELECT) AS one LEFT JOIN LATERAL {schema}.place_at_gate(of_queue, of_context::jsonb) AS way ON TRUE;$q$)
        ) AS wanted (old, new)
    LOOP
        IF (length(body) - length(replace(body, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in take_in_one: %', one.old;
        END IF;
        body := replace(body, one.old, one.new);
    END LOOP;
    EXECUTE 'DROP FUNCTION {schema}.take_in_one_on_way()';
    EXECUTE body;
END
$all$;
