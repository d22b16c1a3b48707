-- Return how many instances of a starting subscription run, with `of_property` only those that have added a value of
-- it; the count stops a bit above a thousand.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.running_of(of_subscription integer, of_property text DEFAULT NULL) RETURNS bigint
AS $function$
BEGIN
    PERFORM {schema}.permit('subscribe', ARRAY(
        SELECT queue_id FROM {schema}.known_subscriptions WHERE subscription_id = of_subscription
    ));
    RETURN (
        SELECT count(*) FROM (
            SELECT FROM {schema}.known_instances AS known
            WHERE known.subscription_id = of_subscription AND (of_property IS NULL OR EXISTS (
                SELECT FROM {schema}.correlations AS added
                WHERE added.instance_id = known.instance_id AND added.property = of_property
            ))
            LIMIT 1001
        ) AS found
    );
END
$function$;
