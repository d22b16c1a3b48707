-- Purpose: subscriptions that aren't started, and how many messages wait in their queues because of that.
-- Index: subscriptions_not_started; entries_of_group: all of a queue that has such a subscription.
SELECT one.subscription::text AS subscription, place.queue, one.state, (
    SELECT count(*) FROM {schema}.entries AS entry
    WHERE entry.queue_id = one.queue_id AND one.subscription_id = ANY (entry.subscription_ids)
        AND entry.subscription_ids <@ ARRAY(
            SELECT also.subscription_id FROM {schema}.known_subscriptions AS also
            WHERE also.queue_id = one.queue_id AND also.state <> 'started'
        )
) AS messages
FROM {schema}.known_subscriptions AS one JOIN {schema}.queues AS place USING (queue_id)
WHERE one.state <> 'started'
ORDER BY one.subscription
