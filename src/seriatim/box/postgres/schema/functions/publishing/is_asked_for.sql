-- Return whether a message is in a queue only because roles have subscribed to its type: then its publisher needs no
-- right there.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.is_asked_for(
    of_queue integer, by_subscriptions integer[], of_type text
) RETURNS boolean
RETURN cardinality(by_subscriptions) > 0 AND NOT EXISTS (
    SELECT FROM unnest(by_subscriptions) AS one (id)
    LEFT JOIN {schema}.known_subscriptions AS known
        ON known.subscription_id = one.id AND known.queue_id = of_queue AND known.state <> 'unenlisted'
    WHERE (known.subscriber IS NOT NULL AND of_type = ANY ({schema}.types_of(known.subscriber))) IS NOT TRUE
);
