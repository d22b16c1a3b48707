-- Send the staged messages for the next keys of a batch, up to a limit, each key's messages in order in a dialog of
-- its own. A dialog that takes no messages any more, or was begun between others, is replaced by a new one. Return
-- the number of keys, and of messages. The caller holds the definitions and the writer's row.
-- is: custom plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.send_staged(
    of_writer text, of_batch bigint, of_parts bigint[], from_service text, to_service text, by_contract text,
    how_many integer, OUT keys integer, OUT messages bigint
)
-- A plan from a time of small tables must not read all of them when they are large.
AS $function$
DECLARE
    wanted text[];
    known_handles uuid[];
    lines record;
    portion record;
    done record;
    portions CURSOR (its_keys text[], its_handles uuid[]) FOR
        SELECT
            array_agg(one.handle ORDER BY one.number) AS handles, array_agg(one.type ORDER BY one.number) AS kinds,
            array_agg(one.content_type ORDER BY one.number) AS content_types,
            array_agg(one.body ORDER BY one.number) AS bodies
        FROM (
            SELECT line.handle, message.type, message.content_type, message.body,
                row_number() OVER in_order AS number,
                sum(octet_length(message.body)::bigint) OVER in_order - octet_length(message.body) AS bytes_before
            FROM unnest(its_keys, its_handles) AS line (key, handle)
            CROSS JOIN unnest(of_parts) WITH ORDINALITY AS part (part_id, at)
            -- Each key is looked up; a list of keys that is compared with every message would be slower
            -- than everything else.
            CROSS JOIN LATERAL (
                SELECT known.part_id, known.place FROM {schema}.staged_keys AS known
                WHERE known.part_id = part.part_id AND known.key = line.key COLLATE "C" AND known.problem IS NULL
                OFFSET 0
            ) AS staged
            JOIN {schema}.staged_messages AS message
                ON message.part_id = staged.part_id AND message.place = staged.place
            WINDOW in_order AS (ORDER BY part.at, staged.place)
        ) AS one
        GROUP BY (one.number - 1) / 5000, div(one.bytes_before, 16777216)
        ORDER BY min(one.number);
BEGIN
    messages := 0;
    wanted := ARRAY(
        SELECT DISTINCT staged.key FROM {schema}.staged_keys AS staged
        WHERE staged.part_id = ANY (of_parts) AND staged.key IS NOT NULL AND staged.problem IS NULL AND NOT EXISTS (
            SELECT FROM {schema}.writer_dialogs AS known
            WHERE known.writer = of_writer AND known.key = staged.key AND known.batch >= of_batch
        )
        ORDER BY staged.key LIMIT how_many
    );
    keys := cardinality(wanted);
    IF keys = 0 THEN
        RETURN;
    END IF;
    -- As for a send: their state stays from here on.
    known_handles := ARRAY(
        SELECT known.handle FROM {schema}.writer_dialogs AS known
        WHERE known.writer = of_writer AND known.key = ANY (wanted)
    );
    PERFORM {schema}.lock_dialogs(known_handles);
    PERFORM FROM {schema}.endpoints AS own WHERE own.handle = ANY (known_handles) ORDER BY own.handle FOR NO KEY UPDATE;
    WITH known AS MATERIALIZED (
        SELECT one.key, one.handle FROM {schema}.writer_dialogs AS one
        WHERE one.writer = of_writer AND one.key = ANY (wanted)
    ), going AS (
        SELECT known.key, known.handle
        FROM known
        -- Each is looked up, whatever the number of this service's dialogs.
        CROSS JOIN LATERAL (SELECT one.* FROM {schema}.endpoints AS one WHERE one.handle = known.handle OFFSET 0) AS own
        JOIN {schema}.dialog_rules AS rule
            ON rule.verb = 'send' AND rule.state = {schema}.state_now(own.state, own.expires_at)
        WHERE rule.refusal IS NULL AND own.service = from_service COLLATE "C" AND own.contract = by_contract COLLATE "C"
            AND own.to_services = ARRAY[to_service COLLATE "C"]
    ), beginning AS MATERIALIZED (
        SELECT one.key, gen_random_uuid() AS handle, gen_random_uuid() AS conversation_id,
            {schema}.choose_box(ARRAY[to_service]) AS over_link
        FROM (SELECT unnest(wanted) AS key EXCEPT SELECT going.key FROM going) AS one
    ), begun AS (
        INSERT INTO {schema}.endpoints (
            handle, conversation_id, is_initiator, service, queue_id, to_services, contract, group_id, state, priority,
            encryption, retains, link_id, receive_sequence, receive_chain, send_chain
        )
        SELECT
            beginning.handle, beginning.conversation_id, TRUE, home.service, home.queue_id, ARRAY[to_service], by_contract,
            gen_random_uuid(), 'SO', 5, FALSE, coalesce((home.definition ->> 'retention')::boolean, FALSE),
            beginning.over_link, CASE WHEN beginning.over_link IS NOT NULL THEN 0 END, {schema}.first_dialog_chain(beginning.conversation_id, FALSE),
            {schema}.first_dialog_chain(beginning.conversation_id, TRUE)
        FROM beginning JOIN {schema}.known_services AS home ON home.service = from_service COLLATE "C"
    ), noted AS (
        INSERT INTO {schema}.writer_dialogs AS noting (writer, key, handle, batch)
        SELECT of_writer, one.key, one.handle, of_batch
        FROM (SELECT key, handle FROM going UNION ALL SELECT key, handle FROM beginning) AS one
        ON CONFLICT (writer, key) DO UPDATE SET handle = excluded.handle, batch = excluded.batch
        RETURNING noting.key, noting.handle
    )
    SELECT array_agg(noted.key ORDER BY noted.key) AS its_keys,
        array_agg(noted.handle ORDER BY noted.key) AS its_handles
    INTO lines FROM noted;
    -- A portion at a time, and not the ten that a loop fetches ahead: they have bodies.
    OPEN portions (lines.its_keys, lines.its_handles);
    LOOP
        FETCH portions INTO portion;
        EXIT WHEN NOT FOUND;
        done := {schema}.try_send(portion.handles, portion.kinds, portion.content_types, portion.bodies);
        PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
        messages := messages + cardinality(portion.handles);
    END LOOP;
    CLOSE portions;
END
$function$;
