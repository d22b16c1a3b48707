-- Pipelines that send in dialogs, and receive what comes for a service.

-- The dialogs that pipelines send in: for each key of a writer the one that its messages go into, and the last batch of
-- the writer of which they are sent. It outlives its dialog until that batch is whole, so that nothing is sent twice.
CREATE TABLE {schema}.writer_dialogs (
    writer text NOT NULL,
    key text COLLATE "C" NOT NULL,
    handle uuid NOT NULL,
    batch bigint NOT NULL,
    PRIMARY KEY (writer, key)
);
CREATE INDEX writer_dialogs_of_handle ON {schema}.writer_dialogs (handle);

-- By which keys staged messages go into dialogs; `problem`: why one doesn't. `place` is that of the message in its part.
CREATE UNLOGGED TABLE {schema}.staged_keys (
    part_id bigint NOT NULL,
    place bigint NOT NULL,
    key text COLLATE "C",
    problem text
);
CREATE INDEX staged_keys_of_part ON {schema}.staged_keys (part_id, key, place);

-- Find the staged messages that the initiator of a dialog may not send under a contract. The caller holds the definitions.
CREATE FUNCTION {schema}.judge_sends(of_parts bigint[], by_contract text) RETURNS void
LANGUAGE sql
AS $function$
    WITH agreed AS (
        SELECT one.type, one.who FROM {schema}.contracts AS known
        CROSS JOIN LATERAL jsonb_each_text(known.definition -> 'types') AS one (type, who)
        WHERE known.contract = by_contract COLLATE "C"
    ), judged AS (
        SELECT message.part_id, message.place, CASE
            WHEN agreed.who IS NULL THEN
                format('the contract "%s" has no message type "%s"', by_contract, left(message.type, 300))
            WHEN agreed.who = 'target' THEN
                format('only the target sends "%s" under the contract "%s"', message.type, by_contract)
            WHEN octet_length(message.body) > 536870912 THEN 'the body of a message can have 536870912 bytes at most'
        END AS problem
        FROM {schema}.staged_messages AS message LEFT JOIN agreed ON agreed.type = message.type COLLATE "C"
        WHERE message.part_id = ANY (of_parts)
    )
    UPDATE {schema}.staged_keys AS staged SET problem = judged.problem FROM judged
    WHERE staged.part_id = judged.part_id AND staged.place = judged.place
        AND staged.key IS NOT NULL AND staged.problem IS DISTINCT FROM judged.problem
$function$;

-- Send what is staged for the next keys of a batch, at most so many, each key's messages in order in a dialog of its own.
-- A dialog that takes no messages any more, or was begun between others, is replaced by a new one. Answers with how many
-- keys these were, and how many messages. The caller holds the definitions and the writer's row.
CREATE FUNCTION {schema}.send_staged(
    of_writer text, of_batch bigint, of_parts bigint[], from_service text, to_service text, by_contract text,
    how_many integer, OUT keys integer, OUT messages bigint
)
LANGUAGE plpgsql
-- A plan that is made while the tables are small must not be one that reads all of them when they are large.
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
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
            -- Each key is looked up; a list of keys that is compared with every message would be slower than all else.
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
    -- As for a send: what state they are in then stays so.
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
        -- Each is looked up, however many there are of this service.
        CROSS JOIN LATERAL (SELECT one.* FROM {schema}.endpoints AS one WHERE one.handle = known.handle OFFSET 0) AS own
        JOIN {schema}.dialog_rules AS rule
            ON rule.verb = 'send' AND rule.state = {schema}.state_now(own.state, own.expires_at)
        WHERE rule.refusal IS NULL AND own.service = from_service COLLATE "C" AND own.contract = by_contract COLLATE "C"
            AND own.to_services = ARRAY[to_service COLLATE "C"]
    ), beginning AS MATERIALIZED (
        SELECT one.key, gen_random_uuid() AS handle
        FROM (SELECT unnest(wanted) AS key EXCEPT SELECT going.key FROM going) AS one
    ), begun AS (
        INSERT INTO {schema}.endpoints (
            handle, conversation_id, is_initiator, service, queue_id, to_services, contract, group_id, state, priority,
            encryption, retains
        )
        SELECT
            beginning.handle, gen_random_uuid(), TRUE, home.service, home.queue_id, ARRAY[to_service], by_contract,
            gen_random_uuid(), 'SO', 5, FALSE, coalesce((home.definition ->> 'retention')::boolean, FALSE)
        FROM beginning JOIN {schema}.services AS home ON home.service = from_service COLLATE "C"
    ), noted AS (
        INSERT INTO {schema}.writer_dialogs AS noting (writer, key, handle, batch)
        SELECT of_writer, one.key, one.handle, of_batch
        FROM (SELECT key, handle FROM going UNION ALL SELECT key, handle FROM beginning) AS one
        ON CONFLICT (writer, key) DO UPDATE SET handle = excluded.handle, batch = excluded.batch
        RETURNING noting.key, noting.handle
    )
    SELECT array_agg(noted.key ORDER BY noted.key) AS its_keys, array_agg(noted.handle ORDER BY noted.key) AS its_handles
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

-- All of a batch is sent that can be: keep the rest as unrouted, each with what is wrong with it, and forget the parts.
-- Answers with how many that is.
CREATE FUNCTION {schema}.end_sends(of_parts bigint[]) RETURNS bigint
LANGUAGE plpgsql
AS $function$
BEGIN
    DELETE FROM {schema}.staged_messages AS message USING {schema}.staged_keys AS staged
    WHERE staged.part_id = ANY (of_parts) AND staged.problem IS NULL
        AND message.part_id = staged.part_id AND message.place = staged.place;
    UPDATE {schema}.staged_messages AS message SET destinations = 0, problem = staged.problem
    FROM {schema}.staged_keys AS staged
    WHERE staged.part_id = ANY (of_parts) AND message.part_id = staged.part_id AND message.place = staged.place;
    DELETE FROM {schema}.staged_keys WHERE part_id = ANY (of_parts);
    RETURN {schema}.merge_parts(of_parts, TRUE);
END
$function$;

-- What is to be done for dialogs whose messages a pipeline gets: who receives the first one converses; who receives an
-- EndDialog or an Error ends his side, and still gets what waits behind it. The caller has the locks of their groups, and
-- has put the messages into a batch.
CREATE FUNCTION {schema}.talk_in_batch(of_queue integer, of_entries bigint[]) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    one record;
BEGIN
    UPDATE {schema}.endpoints AS known SET state = rule.becomes
    FROM {schema}.dialog_rules AS rule, (
        SELECT DISTINCT (stored.context -> 'dialog' ->> 'handle')::uuid AS handle
        FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
        WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue
            AND stored.context -> 'dialog' ->> 'sequence' = '0'
    ) AS first
    WHERE known.handle = first.handle AND NOT known.is_initiator
        AND rule.verb = 'receive' AND rule.state = known.state AND rule.becomes <> known.state;
    FOR one IN
        SELECT DISTINCT (stored.context -> 'dialog' ->> 'handle')::uuid AS handle
        FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
        WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue
            AND stored.type IN ('EndDialog', 'Error') AND stored.context -> 'dialog' ->> 'handle' IS NOT NULL
        ORDER BY handle
    LOOP
        -- What it hasn't received yet stays for it: it is as good as in its hands.
        PERFORM {schema}.try_end(one.handle, 'end', NULL, NULL, ARRAY(
            SELECT stored.message_id
            FROM {schema}.endpoints AS known
            JOIN {schema}.entries AS entry
                ON entry.queue_id = known.queue_id AND entry.group_key = known.group_id::text
            JOIN {schema}.spool AS stored USING (arrival_id, position)
            WHERE known.handle = one.handle
        ));
    END LOOP;
END
$function$;

-- As `fail_dialogs`, of messages that a turn has put into a batch which isn't complete: they, and what is behind them in
-- their dialogs, are taken out of it.
CREATE FUNCTION {schema}.fail_in_batch(
    of_queue integer, in_batch bigint, handles uuid[], message_ids text[], sequences bigint[], whys text[]
) RETURNS bigint[]
LANGUAGE plpgsql
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    UPDATE {schema}.entries AS entry SET status = 'queued', batch = NULL
    FROM unnest(handles, sequences) AS one (handle, sequence)
    JOIN {schema}.endpoints AS known USING (handle), {schema}.spool AS stored
    WHERE entry.queue_id = of_queue AND entry.batch = in_batch AND entry.group_key = known.group_id::text
        AND stored.arrival_id = entry.arrival_id AND stored.position = entry.position
        AND stored.context -> 'dialog' ->> 'handle' = one.handle::text
        AND (stored.context -> 'dialog' ->> 'sequence')::bigint >= one.sequence;
    RETURN {schema}.fail_dialogs(handles, message_ids, sequences, whys);
END
$function$;
