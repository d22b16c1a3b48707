-- The subscriptions, by name. `subscriber`: the role of the subscription, NULL: the owner's; `types`: the types that
-- it may match, then.
CREATE OR REPLACE VIEW {schema}.subscriptions AS
SELECT
    one.subscription,
    place.queue,
    one.state,
    one.definition ->> 'state' AS declared_state,
    one.definition ->> 'where' AS filter,
    pg_get_userbyid(one.subscriber::oid)::text AS subscriber,
    CASE WHEN one.subscriber IS NOT NULL THEN {schema}.types_of(one.subscriber) END AS types
FROM {schema}.known_subscriptions AS one JOIN {schema}.queues AS place USING (queue_id);
