-- Return the instance of a group, or a new id; `added`: the pairs of properties and values that it has added.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.find_instance(
    of_queue integer, of_group text,
    OUT number bigint, OUT made_by integer, OUT kept_state text, OUT known_version bigint, OUT added text[]
)
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    SELECT known.instance_id, known.subscription_id, known.state::text, known.version
    INTO number, made_by, kept_state, known_version
    FROM {schema}.known_instances AS known WHERE known.queue_id = of_queue AND known.group_key = of_group;
    IF FOUND THEN
        SELECT array_agg(ARRAY[one.property, one.value]) INTO added
        FROM {schema}.correlations AS one WHERE one.instance_id = number;
    ELSE
        number := nextval('{schema}.instance_ids');
    END IF;
END
$function$;
