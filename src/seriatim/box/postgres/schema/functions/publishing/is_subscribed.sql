-- Return whether a role's subscription leads to this queue: then every publisher can fill it, and may know whether it
-- is full.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.is_subscribed(of_queue integer) RETURNS boolean
RETURN EXISTS (
    SELECT FROM {schema}.known_subscriptions AS known
    WHERE known.queue_id = of_queue AND known.subscriber IS NOT NULL
);
