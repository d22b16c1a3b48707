-- Make the other sides of new dialogs, as far as services accept them. A side that was forgotten isn't made again: a
-- stream would begin there in its middle.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.add_targets(of_handles uuid[]) RETURNS void
AS $function$
    INSERT INTO {schema}.endpoints (
        handle, conversation_id, is_initiator, is_monolog, service, queue_id, to_services, contract, group_id, state,
        priority, encryption, retains, expires_at
    )
    SELECT
        gen_random_uuid(), own.conversation_id, FALSE, own.is_monolog, place.service, place.queue_id,
        ARRAY[own.service], own.contract, gen_random_uuid(), 'SI', own.priority, own.encryption,
        coalesce((place.definition ->> 'retention')::boolean, FALSE), own.expires_at
    FROM {schema}.endpoints AS own
    JOIN {schema}.known_services AS place ON place.service = ANY (own.to_services)
    WHERE own.handle = ANY (of_handles) AND own.is_initiator AND own.link_id IS NULL AND place.queue_id IS NOT NULL AND place.definition -> 'contracts' ? own.contract
        AND (own.state = 'SO' OR {schema}.first_waits(own.handle, place.service))
    ON CONFLICT (conversation_id, is_initiator, service) DO NOTHING
$function$;
