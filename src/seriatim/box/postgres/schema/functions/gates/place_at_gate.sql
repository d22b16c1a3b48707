-- Return the place at a gate of a message that comes into a queue: no row, or one. In a gate with a gate of its own
-- it counts for the first, until its place there is closed (`released`).
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.place_at_gate(of_queue integer, context jsonb, released boolean DEFAULT FALSE)
RETURNS TABLE (gate_id integer, origin_group text, origin_number bigint)
AS $function$
    SELECT
        way.gate_id, CASE WHEN carried.is_so AND way.gate_id <> way.queue_id THEN context ->> 'origin_group' END,
        CASE WHEN carried.is_so THEN (context ->> 'origin_ordinal')::bigint END
    FROM {schema}.ways AS way CROSS JOIN LATERAL (
        SELECT coalesce(context ->> 'origin_queue' = way.origin, FALSE) AS is_so
    ) AS carried
    WHERE way.queue_id = of_queue AND (way.is_origin OR carried.is_so)
    ORDER BY ((way.gate_id = way.queue_id) <> released) DESC LIMIT 1
$function$;
