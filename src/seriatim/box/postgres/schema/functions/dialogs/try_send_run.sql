-- Send messages of one type in one dialog, as `try_send` does. `content_types` is NULL if none has one.
-- is: definer, generic plan, no seqscan, no hashjoin, no mergejoin
CREATE OR REPLACE FUNCTION {schema}.try_send_run(
    handle uuid, kind text, content_types text[], bodies bytea[], OUT refused text, OUT what text, OUT remedy text
)
AS $function$
DECLARE
    messages integer := coalesce(cardinality(bodies), 0);
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.hold_definitions();
    IF messages = 0 OR array_position(bodies, NULL) > 0 OR pg_column_size(bodies) > 536870912
        OR NOT {schema}.send_straight(handle, kind, content_types, bodies) THEN
        SELECT one.* INTO refused, what, remedy FROM {schema}.try_send(
            array_fill(handle, ARRAY[messages]), array_fill(kind, ARRAY[messages]),
            coalesce(content_types, array_fill(NULL::text, ARRAY[messages])), bodies
        ) AS one;
    END IF;
END
$function$;
