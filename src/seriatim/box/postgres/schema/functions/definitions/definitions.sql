-- Return all definitions, with their version, as of one moment. A process that routes needs all of them; only
-- `activation` is for the roles that may receive from the queue. `queue`: the target of a subscription or a service;
-- `subscriber`: the role of a subscription, NULL: the owner; `types`: the types that the subscription of a role may
-- match. `definition`: of a link, the number of messages that may wait for it; of `regions`, their name, at each of their
-- queues.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.definitions()
RETURNS TABLE (
    kind text, id bigint, name text, definition text, state text, owner text, incarnation integer, queue text,
    subscriber text, types text[]
)
AS $function$
#variable_conflict use_column
DECLARE
    owns boolean := {schema}.is_owner();
    receives integer[] := {schema}.permitted('receive');
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
        SELECT 'version', max(version), NULL, NULL, NULL, NULL, NULL::integer, NULL, NULL, NULL::text[]
        FROM {schema}.changes
        UNION ALL
        SELECT 'type', NULL, type, definition::text, NULL, NULL, NULL, NULL, NULL, NULL FROM {schema}.types
        UNION ALL
        SELECT
            'queue', queue_id, queue, CASE
                WHEN owns OR queue_id = ANY (receives) THEN definition
                WHEN jsonb_typeof(definition) = 'object' THEN definition || '{"activation": null}'
                ELSE 'null'
            END::text,
            CASE WHEN enabled THEN 'on' ELSE 'off' END, owner, incarnation, NULL, NULL, NULL
        FROM {schema}.queues
        UNION ALL
        SELECT
            'subscription', known.subscription_id, known.subscription, known.definition::text, known.state, NULL, NULL,
            place.queue, pg_get_userbyid(known.subscriber::oid)::text,
            CASE WHEN known.subscriber IS NOT NULL THEN {schema}.types_of(known.subscriber) END
        FROM {schema}.known_subscriptions AS known LEFT JOIN {schema}.queues AS place USING (queue_id)
        UNION ALL
        SELECT 'contract', NULL, contract, definition::text, NULL, NULL, NULL, NULL, NULL, NULL FROM {schema}.known_contracts
        UNION ALL
        SELECT 'service', known.queue_id, known.service, known.definition::text, NULL, NULL, NULL, place.queue, NULL,
            NULL
        FROM {schema}.known_services AS known LEFT JOIN {schema}.queues AS place USING (queue_id)
        UNION ALL
        SELECT 'link', link_id, link, definition ->> 'max_waiting', NULL, NULL, NULL, NULL, NULL, NULL
        FROM {schema}.known_links
        WHERE definition ->> 'max_waiting' IS NOT NULL
        UNION ALL
        SELECT 'regions', NULL, place.queue, regional.name, NULL, NULL, NULL, NULL, NULL, NULL
        FROM {schema}.region_queues AS regional JOIN {schema}.queues AS place USING (queue_id)
        UNION ALL
        SELECT 'settings', NULL, 'box', definition::text, NULL, NULL, NULL, NULL, NULL, NULL FROM {schema}.settings;
END
$function$;
