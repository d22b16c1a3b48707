-- Return the groups, and the activations, of the instances that have added some values; a row for each, in order. A
-- publisher sees those of the queues that it may publish to. If a value leads to another queue the message is
-- refused, as by a subscription, and the publisher sees no more.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.led_by(of_queues integer[], properties text[], its_values text[])
RETURNS TABLE (led_to text, activation integer)
AS $function$
DECLARE
    sees_all boolean := {schema}.may_route();
BEGIN
    IF NOT sees_all THEN
        PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
        PERFORM {schema}.permit('publish', ARRAY(
            SELECT DISTINCT added.queue_id
            FROM unnest(of_queues, properties, its_values) AS asked (queue_id, property, value)
            JOIN {schema}.correlations AS added
                ON added.queue_id = asked.queue_id AND added.property = asked.property COLLATE "C"
                AND added.value = asked.value COLLATE "C"
            JOIN {schema}.known_instances AS known USING (instance_id)
            JOIN {schema}.known_subscriptions AS one USING (subscription_id)
            WHERE one.state <> 'unenlisted'
        ));
    END IF;
    RETURN QUERY
    SELECT known.group_key, known.subscription_id
    FROM unnest(of_queues, properties, its_values) WITH ORDINALITY AS asked (queue_id, property, value, place)
    LEFT JOIN {schema}.correlations AS added
        ON added.queue_id = asked.queue_id AND added.property = asked.property COLLATE "C"
        AND added.value = asked.value COLLATE "C"
    LEFT JOIN {schema}.known_instances AS known USING (instance_id)
    ORDER BY asked.place;
END
$function$;
