-- Move to the streams of a link what dialogs have to say to the box there: numbers, as far as their streams have room,
-- and records outside the numbers. Return how many. Sides that are locked are left for later.
-- is: generic plan, no seqscan, no jit
CREATE OR REPLACE FUNCTION {schema}.link_collect_dialogs(of_link integer, at_most integer) RETURNS bigint
AS $function$
DECLARE
    its_incarnation bigint := (SELECT known.incarnation FROM {schema}.box_identity AS known);
    most_bytes CONSTANT bigint := 33554432;
    side record;
    one record;
    chain bytea;
    left_bytes bigint := most_bytes;
    destinations text[] := '{}';
    keys text[] := '{}';
    ids text[] := '{}';
    headers bytea[] := '{}';
    bodies bytea[] := '{}';
    gone bigint[] := '{}';
BEGIN
    IF (SELECT known.version < 2 FROM {schema}.known_links AS known WHERE known.link_id = of_link) THEN
        RETURN 0;
    END IF;
    FOR side IN
        SELECT own.*, {schema}.dialog_key(own.conversation_id, own.is_initiator) AS key,
            agreed.definition -> 'types' AS types
        FROM (
            SELECT DISTINCT waiting.handle FROM {schema}.known_transmission AS waiting WHERE waiting.link_id = of_link
        ) AS waiting
        JOIN {schema}.endpoints AS own USING (handle)
        JOIN {schema}.known_contracts AS agreed USING (contract)
        FOR NO KEY UPDATE OF own SKIP LOCKED
    LOOP
        EXIT WHEN left_bytes <= 0 OR cardinality(ids) >= at_most;
        CONTINUE WHEN EXISTS (
            SELECT FROM {schema}.link_streams_out AS stream
            WHERE stream.queue_id = 0 AND stream.key = side.key
                AND (stream.status <> {status.OPEN} OR stream.acked < stream.sent)
        );
        IF side.number IS NULL THEN
            INSERT INTO {schema}.conversations AS known (link_id, is_ours, incarnation, highest)
            -- Above all that were given before the link was made anew, or after another restore of the same backup.
            VALUES (of_link, TRUE, its_incarnation, {schema}.now_us() / 1000)
            ON CONFLICT (link_id, is_ours, incarnation) DO UPDATE SET highest = known.highest + 1
            RETURNING known.highest INTO side.number;
            side.opened_in := its_incarnation;
        END IF;
        chain := side.send_chain;
        FOR one IN
            SELECT waiting.* FROM {schema}.known_transmission AS waiting
            WHERE waiting.handle = side.handle ORDER BY waiting.transmission_id LIMIT {WINDOW}
        LOOP
            EXIT WHEN left_bytes <= 0;
            left_bytes := left_bytes - octet_length(one.body) - 1000;
            destinations := destinations || one.to_service::text;
            keys := keys || side.key;
            ids := ids || (side.key || ':' || CASE one.type WHEN '' THEN 'check' ELSE one.sequence::text END);
            headers := headers || convert_to(jsonb_build_object(
                'kind', CASE one.type WHEN '' THEN 'check' ELSE 'number' END,
                'conversation', side.conversation_id, 'initiator', side.is_initiator,
                'number', jsonb_build_array(side.opened_in, side.number), 'service', side.service,
                'far_service', one.to_service, 'contract', side.contract,
                'types', encode(sha256(convert_to(side.types::text, 'UTF8')), 'hex'), 'priority', side.priority,
                'lifetime', CASE WHEN side.expires_at IS NOT NULL THEN
                    greatest(0, extract(epoch FROM side.expires_at - clock_timestamp()))
                END,
                'sealed', FALSE, 'sequence', one.sequence, 'chain', encode(chain, 'hex'), 'got', side.receive_sequence,
                'type', one.type, 'content_type', one.content_type, 'code', NULL, 'text', NULL
            )::text, 'UTF8');
            bodies := bodies || one.body;
            gone := gone || one.transmission_id;
            IF one.type <> '' THEN
                chain := {schema}.dialog_chain(chain, one.type, one.body);
            END IF;
        END LOOP;
        UPDATE {schema}.endpoints AS known SET
            opened_in = side.opened_in, number = side.number, send_chain = chain
        WHERE known.handle = side.handle;
    END LOOP;
    DELETE FROM {schema}.known_transmission AS waiting WHERE waiting.transmission_id = ANY (gone);
    FOR one IN
        DELETE FROM {schema}.dialog_records AS said
        WHERE said.link_id = of_link AND NOT EXISTS (
            SELECT FROM {schema}.link_streams_out AS stream
            WHERE stream.queue_id = 0 AND stream.key = 'control:' || of_link AND stream.status <> {status.OPEN}
        )
        RETURNING said.*
    LOOP
        destinations := destinations || 'dialogs'::text;
        keys := keys || ('control:' || of_link);
        ids := ids || ({schema}.dialog_key(one.conversation_id, one.is_initiator) || ':' || one.kind);
        headers := headers || convert_to(jsonb_build_object(
            'kind', one.kind, 'conversation', one.conversation_id, 'initiator', one.is_initiator,
            'number', jsonb_build_array(one.incarnation, one.number), 'code', one.code, 'text', one.why
        )::text, 'UTF8');
        bodies := bodies || ''::bytea;
    END LOOP;
    IF ids <> '{}' THEN
        PERFORM {schema}.link_append_records(of_link, destinations, keys, ids, headers, bodies);
    END IF;
    RETURN cardinality(ids);
END
$function$;
