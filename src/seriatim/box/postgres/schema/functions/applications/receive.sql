-- Hand out the next messages of a group in the caller's transaction, a row each; the group is locked until it ends.
-- What it completes is done with its other writes; what isn't completed at its commit is a lease from then on. Without a
-- message one row gives the reason, and the channel on which the caller may LISTEN. docs/how-to/receive-from-sql.md
-- describes it. `holder`: a name that a server gives to one of its callers.
-- is: definer, generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin
CREATE OR REPLACE FUNCTION {schema}.receive(
    queue text, "limit" integer DEFAULT 50, lease interval DEFAULT '30 s', "group" text DEFAULT NULL,
    dialog uuid DEFAULT NULL, attempt_id text DEFAULT NULL, max_bytes bigint DEFAULT NULL, holder text DEFAULT ''
)
RETURNS TABLE (
    reason text, channel text, delivery uuid, token bigint, until timestamptz, group_key text, "position" integer,
    message_id text, type text, content_type text, body bytea, context jsonb, sequence bigint, ordinal bigint,
    late boolean, attempt integer, priority integer, received_at timestamptz, location text, parts integer
)
AS $function$
#variable_conflict use_column
DECLARE
    place record;
    its record;
    named text := receive."group";
    most integer := receive."limit";
    own record;
    fitting integer;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'receive needs READ COMMITTED: it has to read what was committed after it got its lock' USING
            ERRCODE = 'invalid_transaction_state', HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED';
    END IF;
    SELECT known.*, EXISTS (SELECT FROM {schema}.known_services AS one WHERE one.queue_id = known.queue_id) AS serves,
        known.definition #>> '{policy,name}' = 'unit_of_work' AS is_set INTO place
    FROM {schema}.queues AS known WHERE known.queue = receive.queue;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no queue "%"', receive.queue USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[place.queue_id]);
    PERFORM {schema}.lease_period(lease);
    IF most IS NULL OR most NOT BETWEEN 1 AND 1000000 OR max_bytes < 1 OR holder IS NULL
        OR length(attempt_id) NOT BETWEEN 1 AND 256 THEN
        RAISE EXCEPTION 'a limit, a number of bytes or an attempt_id is out of range' USING
            ERRCODE = 'invalid_parameter_value',
            HINT = '1 to 1000000 messages, 1 byte or more, 1 to 256 characters';
    END IF;
    SELECT looked.problem INTO reason FROM (SELECT CASE
        WHEN NOT place.enabled THEN 'is off'
        WHEN place.owner IS NOT NULL THEN 'belongs to a pipeline'
        WHEN place.definition ->> 'at' IS NOT NULL THEN 'is in another box: receive there'
        WHEN EXISTS (SELECT FROM {schema}.region_queues AS one WHERE one.queue_id = place.queue_id) THEN
            'is one of two regions, whose journal says which of them handles a message: seriatim work --regions'
        WHEN EXISTS (
            SELECT FROM {schema}.known_subscriptions AS one
            WHERE one.queue_id = place.queue_id AND one.definition ->> 'starts' IS NOT NULL
        ) THEN 'has instances, whose state only Python has: seriatim work, or box.session()'
    END AS problem) AS looked;
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION 'the queue "%" %', receive.queue, reason USING ERRCODE = 'SQ006';
    END IF;
    channel := 'seriatim_' || pg_backend_pid();
    IF attempt_id IS NOT NULL THEN
        delivery := {schema}.lease_of_attempt(place.queue_id, holder, attempt_id);
    END IF;
    IF delivery IS NOT NULL THEN
        own := {schema}.at_lease(delivery, holder, 'read', NULL, '');
        token := own.token;
        until := own.until;
        group_key := own.group_key;
    ELSE
        IF dialog IS NOT NULL THEN
            SELECT one.group_key, least(most, one.messages) INTO named, most
            FROM {schema}.first_of_dialog(place.queue_id, dialog, named, place.definition) AS one;
        END IF;
        IF most > 0 THEN
            its := {schema}.take_next(
                place.queue_id, place.definition, named, most, place.serves, place.is_set
            );
        END IF;
        IF most = 0 OR its.entry_ids IS NULL THEN
            reason := {schema}.why_nothing(place.queue_id, channel);
            RETURN NEXT;
            RETURN;
        END IF;
        -- As `untried`: what failed before comes alone. The bodies stay below a size.
        fitting := cardinality(its.entry_ids);
        PERFORM FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (its.entry_ids) AND entry.attempt > 0;
        IF NOT place.is_set AND (FOUND OR max_bytes IS NOT NULL) THEN
            SELECT coalesce(min(one.at) - 1, fitting) INTO fitting
            FROM (
                SELECT wanted.at, entry.attempt > 0 OR lag(entry.attempt > 0) OVER by_place AS is_apart,
                    sum(octet_length(stored.body)) OVER by_place AS bytes
                FROM unnest(its.entry_ids) WITH ORDINALITY AS wanted (entry_id, at)
                JOIN {schema}.entries AS entry ON entry.entry_id = ANY (ARRAY[wanted.entry_id])
                JOIN {schema}.spool AS stored
                    ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
                WINDOW by_place AS (ORDER BY wanted.at)
            ) AS one
            WHERE one.at > 1 AND (one.is_apart OR one.bytes > max_bytes);
        END IF;
        group_key := its.group_key;
        SELECT made.delivery, made.token, made.until INTO delivery, token, until
        FROM {schema}.lease_out(
            place.queue_id, its.group_key, its.entry_ids, its.ordinals, its.lates, fitting, holder, attempt_id, lease,
            place.is_set, TRUE
        ) AS made;
        IF delivery IS NULL THEN
            RAISE EXCEPTION 'another call with the attempt_id "%" was faster', attempt_id USING
                ERRCODE = 'serialization_failure', HINT = 'roll back and repeat it: it gets the same delivery';
        END IF;
        SELECT 0 AS done, its.entry_ids[:fitting] AS entry_ids, its.ordinals[:fitting] AS ordinals,
            its.lates[:fitting] AS lates INTO own;
        -- What has arrived before, or came by SQL, is judged meanwhile.
        PERFORM {schema}.call_judges(place.queue_id) FROM {schema}.to_route LIMIT 1;
    END IF;
    RETURN QUERY
    SELECT
        NULL::text, receive.channel, receive.delivery, receive.token, receive.until, coalesce(receive.group_key, entry.group_key),
        handed.at::integer, stored.message_id, stored.type, stored.content_type,
        coalesce(CASE WHEN entry.edited THEN (
            SELECT edit.body FROM {schema}.edited(place.queue_id, ARRAY[entry.entry_id]) AS edit
        ) END, stored.body),
        coalesce(CASE WHEN entry.edited THEN (
            SELECT edit.context::jsonb FROM {schema}.edited(place.queue_id, ARRAY[entry.entry_id]) AS edit
        ) END, stored.context), entry.sequence, handed.ordinal, handed.late, entry.attempt + 1,
        entry.priority::integer, stored.received_at, run.location, stored.parts::integer
    FROM unnest(own.entry_ids, own.ordinals, own.lates) WITH ORDINALITY AS handed (entry_id, ordinal, late, at)
    JOIN {schema}.entries AS entry ON entry.entry_id = ANY (ARRAY[handed.entry_id])
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
    JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
    WHERE handed.at > own.done
    ORDER BY handed.at;
END
$function$;
