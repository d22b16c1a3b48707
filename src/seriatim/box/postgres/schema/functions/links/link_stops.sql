-- Return why a record of a dialog can't be taken now, in words; empty: it never can, or its sender may not say it; NULL: it
-- can.
-- is: stable, no seqscan
CREATE OR REPLACE FUNCTION {schema}.link_stops(of_link integer, header text) RETURNS text
AS $function$
DECLARE
    said jsonb;
    own record;
    place record;
    most bigint;
    wrong CONSTANT text := 'a record of a dialog has other fields than the protocol says';
BEGIN
    IF (header IS JSON OBJECT WITH UNIQUE KEYS) IS NOT TRUE THEN
        RETURN wrong;
    END IF;
    said := header::jsonb;
    IF (
        said ->> 'kind' IN ('number', 'check', 'error', 'gone')
        AND said ->> 'conversation' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        AND jsonb_typeof(said -> 'initiator') = 'boolean' AND jsonb_typeof(said -> 'number') = 'array'
        AND jsonb_array_length(said -> 'number') = 2 AND said #>> '{number,0}' ~ '^[1-9]\d{0,14}$' AND said #>> '{number,1}' ~ '^[1-9]\d{0,14}$'
    ) IS NOT TRUE THEN
        RETURN wrong;
    END IF;
    SELECT known.link_id, known.queue_id, known.to_services[1] AS far_service INTO own
    FROM {schema}.endpoints AS known
    WHERE known.conversation_id = (said ->> 'conversation')::uuid
        AND known.is_initiator <> (said ->> 'initiator')::boolean
        -- That of a link that was removed answers nobody: obeying says so.
        AND (known.link_id IS NULL OR EXISTS (SELECT FROM {schema}.known_links AS one WHERE one.link_id = known.link_id));
    IF FOUND AND own.link_id IS DISTINCT FROM of_link THEN
        RETURN ''; -- a conversation of a third box
    ELSIF said ->> 'kind' IN ('error', 'gone') THEN
        RETURN CASE WHEN (
            jsonb_typeof(said -> 'code') = 'number' AND said ->> 'code' ~ '^-?\d{1,10}$'
            AND (said ->> 'code')::bigint BETWEEN -2147483648 AND 2147483647 AND length(said ->> 'text') <= 3000
        ) IS NOT TRUE THEN wrong END;
    ELSIF (
        said ->> 'sequence' ~ '^\d{1,15}$' AND said ->> 'got' ~ '^\d{1,15}$' AND said ->> 'chain' ~ '^[0-9a-f]{64}$'
        AND said ->> 'priority' ~ '^([1-9]|10)$' AND length(said ->> 'type') <= 128
        AND length(said ->> 'contract') BETWEEN 1 AND 128 AND length(said ->> 'service') BETWEEN 1 AND 128
        AND (
            said -> 'lifetime' = 'null'
            OR jsonb_typeof(said -> 'lifetime') = 'number' AND (said ->> 'lifetime')::numeric BETWEEN 0 AND 864000000
        )
        AND (said ->> 'type' <> '' OR said ->> 'kind' = 'check')
    ) IS NOT TRUE OR said ->> 'type' IN ('Error', 'Timer') THEN
        RETURN wrong;
    ELSIF own.far_service <> said ->> 'service' OR NOT EXISTS (
        SELECT FROM {schema}.known_links AS one WHERE one.link_id = of_link AND (
            said ->> 'service' = ANY (one.services) OR EXISTS (
                SELECT FROM {schema}.known_services AS known
                WHERE known.service = (said ->> 'service') COLLATE "C" AND known.queue_id IS NULL
                    AND known.definition -> 'at' ? one.link
            )
        )
    ) THEN
        RETURN '';
    END IF;
    IF own.link_id IS NULL AND (said ->> 'initiator')::boolean AND said -> 'sequence' = '0' THEN
        SELECT known.queue_id, known.definition, agreed.definition -> 'types' AS types INTO place
        FROM {schema}.known_services AS known
        LEFT JOIN {schema}.known_contracts AS agreed ON agreed.contract = (said ->> 'contract') COLLATE "C"
        WHERE known.service = (said ->> 'far_service') COLLATE "C" AND known.queue_id IS NOT NULL;
        IF place.queue_id IS NULL THEN
            RETURN format('there is no service "%s"', said ->> 'far_service');
        ELSIF NOT place.definition -> 'contracts' ? (said ->> 'contract') THEN
            RETURN format('the service "%s" doesn''t accept the contract "%s"', said ->> 'far_service', said ->> 'contract');
        ELSIF encode(sha256(convert_to(place.types::text, 'UTF8')), 'hex') <> said ->> 'types' THEN
            RETURN format('the contract "%s" has other types in the two boxes', said ->> 'contract');
        END IF;
        own.queue_id := place.queue_id;
    END IF;
    most := (
        SELECT {schema}.whole_number(known.definition -> 'max_messages')
        FROM {schema}.queues AS known WHERE known.queue_id = own.queue_id
    );
    IF most <= (
        SELECT count(*) FROM (SELECT FROM {schema}.entries WHERE queue_id = own.queue_id LIMIT most) AS entered
    ) + (SELECT count(*) FROM (SELECT FROM {schema}.dialog_inbox WHERE queue_id = own.queue_id LIMIT most) AS waiting) THEN
        RETURN format('the queue of the service "%s" is full', said ->> 'far_service');
    END IF;
    RETURN NULL;
END
$function$;
