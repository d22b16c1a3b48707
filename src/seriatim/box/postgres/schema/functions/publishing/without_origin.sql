-- Return the properties of a role's message, without an origin that it may carry: one of a queue from which the role
-- receives, or of its way.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.without_origin(context jsonb) RETURNS jsonb
AS $function$
BEGIN
    IF context ? 'origin_queue' AND EXISTS (
        SELECT FROM {schema}.ways AS way
        WHERE way.origin = context ->> 'origin_queue' AND way.gate_id <> way.queue_id
            AND way.queue_id = ANY ({schema}.permitted('receive'))
    ) THEN
        RETURN context - '{origin_queue,origin_group,origin_incarnation,origin_ordinal}'::text[];
    END IF;
    RETURN context;
END
$function$;
