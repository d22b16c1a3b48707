-- Purpose: how many messages wait that only subscriptions which aren't started have collected, this one among them; up
-- to 1,001.
-- Index: entries_of_group, all of the queue.
SELECT count(*) AS waiting FROM (
    SELECT FROM {schema}.entries
    WHERE queue_id = %(queue_id)s AND %(subscription_id)s = ANY (subscription_ids) AND subscription_ids <@ (
        SELECT array_agg(subscription_id) FROM {schema}.known_subscriptions
        WHERE queue_id = %(queue_id)s AND state <> 'started'
    )
    LIMIT 1001
) AS one
