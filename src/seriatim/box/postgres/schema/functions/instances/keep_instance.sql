-- Store a handler's changes of an instance; the caller has the lock of its group. `known_version`: NULL makes it.
-- `new_state`: NULL leaves it. `kept`: FALSE if it isn't in the state that the caller knows. `taken`: the value that
-- leads to another instance already; then the caller rolls back.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.keep_instance(
    of_instance bigint, of_queue integer, of_group text, of_subscription integer, known_version bigint,
    new_state text, properties text[], new_values text[], OUT kept boolean, OUT taken text
)
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    IF known_version IS NULL THEN
        INSERT INTO {schema}.known_instances (instance_id, queue_id, group_key, subscription_id, state)
        VALUES (of_instance, of_queue, of_group, of_subscription, new_state::json);
        kept := TRUE;
    ELSE
        UPDATE {schema}.known_instances AS known SET
            state = coalesce(new_state::json, known.state), version = known.version + 1, changed_at = now()
        WHERE known.instance_id = of_instance AND known.queue_id = of_queue AND known.version = known_version;
        kept := FOUND;
    END IF;
    IF kept AND cardinality(properties) > 0 THEN
        -- In one order for all, so that two of them never deadlock.
        INSERT INTO {schema}.correlations (queue_id, property, value, instance_id)
        SELECT of_queue, one.property, one.value, of_instance
        FROM unnest(properties, new_values) AS one (property, value)
        ORDER BY one.property, one.value
        ON CONFLICT DO NOTHING;
        SELECT known.property || ' = ' || known.value INTO taken
        FROM unnest(properties, new_values) AS one (property, value)
        JOIN {schema}.correlations AS known
            ON known.queue_id = of_queue AND known.property = one.property AND known.value = one.value
        WHERE known.instance_id <> of_instance
        LIMIT 1;
    END IF;
END
$function$;
