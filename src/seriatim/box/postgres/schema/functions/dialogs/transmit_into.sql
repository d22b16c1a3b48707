-- Deliver the messages in the transmission queue for existing services of these queues (NULL: of all), in order, as
-- far as their queues have room. Locked dialogs are skipped: their holder may wait for the caller.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.transmit_into(of_queues integer[]) RETURNS bigint
AS $function$
DECLARE
    one record;
    other record;
    gathered record;
    room bigint;
    filled integer[] := ARRAY[]::integer[];
    delivered bigint := 0;
BEGIN
    IF {schema}.is_stopped() THEN
        RETURN 0;
    END IF;
    FOR one IN
        SELECT
            waiting.handle, waiting.to_service, own.conversation_id, own.is_initiator, own.is_monolog, place.queue_id,
            {schema}.whole_number(home.definition -> 'max_messages') AS most
        FROM (
            SELECT handle, to_service, min(transmission_id) AS since FROM {schema}.known_transmission
            WHERE of_queues IS NULL OR to_service IN (
                SELECT known.service FROM {schema}.known_services AS known WHERE known.queue_id = ANY (of_queues)
            ) GROUP BY handle, to_service
        ) AS waiting
        JOIN {schema}.endpoints AS own USING (handle)
        JOIN {schema}.known_services AS place ON place.service = waiting.to_service
        JOIN {schema}.queues AS home ON home.queue_id = place.queue_id
        WHERE own.link_id IS NULL AND (place.definition -> 'contracts' ? own.contract OR NOT own.is_initiator)
        ORDER BY waiting.since
    LOOP
        CONTINUE WHEN one.queue_id = ANY (filled);
        room := CASE WHEN one.most IS NOT NULL THEN one.most - (SELECT count(*) FROM (
            SELECT FROM {schema}.entries AS entry WHERE entry.queue_id = one.queue_id LIMIT one.most
        ) AS counted) END;
        IF room <= 0 THEN
            filled := filled || one.queue_id;
            CONTINUE;
        END IF;
        PERFORM FROM {schema}.endpoints AS own WHERE own.handle = one.handle FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        -- If another process has changed it an insertion would wait for that process.
        IF one.is_initiator AND NOT EXISTS (
            SELECT FROM {schema}.endpoints AS far
            WHERE far.conversation_id = one.conversation_id AND NOT far.is_initiator AND far.service = one.to_service
        ) THEN
            PERFORM {schema}.add_targets(ARRAY[one.handle]);
        END IF;
        SELECT far.handle, far.state INTO other FROM {schema}.endpoints AS far
        WHERE far.conversation_id = one.conversation_id AND far.is_initiator <> one.is_initiator
            AND far.service = one.to_service FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR other.state NOT IN ('SI', 'CO') AND NOT one.is_monolog;
        WITH sent AS (
            DELETE FROM {schema}.known_transmission AS waiting
            WHERE waiting.transmission_id IN (
                SELECT known.transmission_id FROM {schema}.known_transmission AS known
                WHERE known.handle = one.handle AND known.to_service = one.to_service
                ORDER BY known.transmission_id LIMIT room
            )
            RETURNING waiting.*
        )
        SELECT
            array_agg(other.handle) AS receivers, array_agg(type ORDER BY transmission_id) AS kinds,
            array_agg(content_type ORDER BY transmission_id) AS content_types,
            array_agg(body ORDER BY transmission_id) AS bodies,
            array_agg(sequence ORDER BY transmission_id) AS sequences
        INTO gathered FROM sent;
        CONTINUE WHEN gathered.receivers IS NULL;
        IF other.state IN ('SI', 'CO') THEN
            PERFORM {schema}.post(
                gathered.receivers, gathered.kinds, gathered.content_types, gathered.bodies, gathered.sequences, FALSE
            );
            delivered := delivered + cardinality(gathered.receivers);
        END IF;
        IF 'EndDialog' = ANY (gathered.kinds) THEN
            IF other.state IN ('SI', 'CO') THEN
                PERFORM {schema}.become(gathered.receivers[1], 'DI');
            END IF;
            IF one.is_monolog AND NOT EXISTS (
                SELECT FROM {schema}.known_transmission AS waiting WHERE waiting.handle = one.handle
            ) THEN
                PERFORM {schema}.become(one.handle, 'CD');
            END IF;
        END IF;
    END LOOP;
    RETURN delivered;
END
$function$;
