-- Definitions as they are written and read: what is wrong is refused where it is written, and where something got in
-- nevertheless, nothing else stops for it.

-- A whole number of JSON; NULL where it is anything else, as a definition may have that nobody can read.
CREATE OR REPLACE FUNCTION {schema}.whole_number(given jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN jsonb_typeof(given) = 'number' AND given::text ~ '^-?\d{{1,18}}$' THEN (given #>> '{{}}')::bigint END;

-- What a queue's definition says of its policy, as far as that can be read: its name, where it starts, its step, its time-out
-- and how often it is reported.
CREATE OR REPLACE FUNCTION {schema}.policy_said(
    said jsonb, OUT name text, OUT start text, OUT increment bigint, OUT hole_timeout text, OUT hole_retries bigint
)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $function$
    SELECT
        said ->> 'name', said ->> 'start', {schema}.whole_number(said -> 'increment'), said ->> 'hole_timeout',
        {schema}.whole_number(said -> 'hole_retries')
$function$;

-- What is wrong with a subscription as it is written; NULL: nothing that SQL can see. The filter is read where it is used.
CREATE OR REPLACE FUNCTION {schema}.wrong_subscription(named text, to_queue text, declared jsonb, its_state text) RETURNS text
LANGUAGE sql STABLE
RETURN CASE
    WHEN coalesce(length(named), 0) NOT BETWEEN 1 AND 128 THEN 'its name has 1 to 128 characters'
    WHEN jsonb_typeof(declared) IS DISTINCT FROM 'object' THEN 'its definition is a JSON object'
    WHEN ARRAY(SELECT jsonb_object_keys(declared) ORDER BY 1)
        IS DISTINCT FROM '{{correlate,name,starts,state,to,version,where}}'::text[]
        THEN 'its definition has correlate, name, starts, state, to, version and where'
    WHEN declared -> 'version' <> '1' THEN 'its definition is of version 1'
    WHEN declared -> 'name' <> to_jsonb(named) THEN 'its definition has another name'
    WHEN declared -> 'to' IS DISTINCT FROM to_jsonb(to_queue) THEN 'its definition leads to another queue'
    WHEN jsonb_typeof(declared -> 'where') <> 'string' OR trim(declared ->> 'where') = '' THEN 'where is a filter: text'
    WHEN length(declared ->> 'where') > 100000 THEN 'its filter has 100,000 characters at most'
    WHEN coalesce(its_state, '') NOT IN ('started', 'stopped', 'enlisted', 'unenlisted')
        OR declared -> 'state' NOT IN ('"started"', '"stopped"', '"enlisted"', '"unenlisted"')
        THEN 'its state is started, stopped, enlisted or unenlisted'
    WHEN jsonb_typeof(declared -> 'starts') NOT IN ('string', 'null') OR length(declared ->> 'starts') > 1000
        THEN 'starts is the name of a function, or null'
    WHEN jsonb_typeof(declared -> 'correlate') <> 'array' THEN 'correlate is a list of names'
    WHEN jsonb_array_length(declared -> 'correlate') > 100 OR EXISTS (
        SELECT FROM jsonb_array_elements(declared -> 'correlate') AS one
        WHERE jsonb_typeof(one) <> 'string' OR length(one #>> '{{}}') NOT BETWEEN 1 AND 128
    ) THEN 'correlate is a list of names, each of 1 to 128 characters'
    WHEN (jsonb_array_length(declared -> 'correlate') = 0) <> (declared -> 'starts' = 'null')
        THEN 'starts and correlate go together'
END;

-- Make a subscription, or change one. That of a role matches only messages of the types granted to the role by whose right it
-- is made: the caller, or one that it is a member of.
CREATE OR REPLACE FUNCTION {schema}.subscribe(
    named text, to_queue text, declared jsonb, its_state text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    place integer := (SELECT queue_id FROM {schema}.queues WHERE queue = to_queue);
    wrong text := {schema}.wrong_subscription(named, to_queue, declared, its_state);
    owning regrole;
BEGIN
    -- Where it leads, and where it led.
    PERFORM {schema}.permit('subscribe', ARRAY(
        SELECT place WHERE place IS NOT NULL
        UNION ALL
        SELECT queue_id FROM {schema}.known_subscriptions WHERE subscription = named
    ));
    IF place IS NULL THEN
        wrong := coalesce(wrong, format('there is no queue "%s"', left(to_queue, 128)));
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'the subscription "%" can''t be defined: %', left(named, 128), wrong USING
            ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT {schema}.is_owner() THEN
        SELECT given.role INTO owning FROM {schema}.grants AS given
        WHERE given.may = 'subscribe' AND given.queue_id = place
            AND pg_has_role({schema}.caller(), given.role::oid, 'USAGE')
        ORDER BY pg_get_userbyid(given.role::oid) <> {schema}.caller(), given.role::oid LIMIT 1;
        IF cardinality({schema}.types_of(owning)) = 0 THEN
            RAISE EXCEPTION 'the role "%" may subscribe to no type of message', pg_get_userbyid(owning::oid) USING
                ERRCODE = 'insufficient_privilege',
                HINT = 'seriatim box grant ROLE --type TYPE';
        END IF;
    END IF;
    INSERT INTO {schema}.known_subscriptions AS known (subscription, queue_id, definition, state, subscriber)
    VALUES (named, place, declared, its_state, owning)
    ON CONFLICT (subscription) DO UPDATE
    SET definition = excluded.definition, queue_id = excluded.queue_id, state = excluded.state,
        subscriber = excluded.subscriber;
END
$function$;

-- The next version of what is defined; whoever routes reads it anew.
CREATE OR REPLACE FUNCTION {schema}.record_change(changed text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('subscribe', ARRAY[]::integer[]);
    INSERT INTO {schema}.changes (version, what)
    SELECT max(version) + 1, left(coalesce(changed, ''), 10000) FROM {schema}.changes;
END
$function$;

-- Everything that is defined, with its version, as of one moment. Whoever routes has to know all of it; but for what works on
-- a queue, which is told only to those who may receive from it. `queue`: where a subscription leads; `subscriber`: the role
-- whose it is, NULL: the owner's; `types`: which messages it may match, then.
DROP FUNCTION {schema}.definitions();
CREATE FUNCTION {schema}.definitions()
RETURNS TABLE (
    kind text, id bigint, name text, definition text, state text, owner text, incarnation integer, queue text,
    subscriber text, types text[]
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
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
                WHEN jsonb_typeof(definition) = 'object' THEN definition - 'activation'
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
        SELECT 'contract', NULL, contract, definition::text, NULL, NULL, NULL, NULL, NULL, NULL FROM {schema}.contracts
        UNION ALL
        SELECT 'service', known.queue_id, known.service, known.definition::text, NULL, NULL, NULL, place.queue, NULL, NULL
        FROM {schema}.services AS known LEFT JOIN {schema}.queues AS place USING (queue_id);
END
$function$;

-- The queue that a message of SQL's is addressed to, if that is full, refuses what doesn't fit, and the message surely
-- fills no hole there: its group and number are told, as text and number, and nothing later of its group waits. NULL: it
-- comes in. What is only in the body the kernel alone can find; and nobody waits within a statement.
CREATE OR REPLACE FUNCTION {schema}.full_for(context jsonb) RETURNS text
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $function$
DECLARE
    place record;
    fills boolean := FALSE;
BEGIN
    SELECT queue_id, queue, {schema}.whole_number(definition -> 'max_messages') AS most, definition #>> '{{policy,name}}' AS policy,
        definition ->> 'group' AS grouped, definition ->> 'sequence' AS numbered
    INTO place
    FROM {schema}.queues
    WHERE queue = context ->> 'to' AND {schema}.whole_number(definition -> 'max_messages') IS NOT NULL
        AND definition ->> 'when_full' = 'refuse';
    IF NOT FOUND OR NOT ({schema}.is_owner() OR place.queue_id = ANY ({schema}.permitted('publish'))) THEN
        RETURN NULL;
    END IF;
    IF ({schema}.room_in(ARRAY[place.queue_id], ARRAY[place.most]))[1] > 0 THEN
        RETURN NULL;
    END IF;
    IF place.policy IN ('standard', 'unit_of_work') THEN
        fills := coalesce(jsonb_typeof(context -> place.grouped), 'null') NOT IN ('string', 'number')
            OR coalesce(context ->> place.numbered, '') !~ '^-?\d{{1,18}}$'
            OR EXISTS (
                SELECT FROM {schema}.types
                WHERE coalesce(
                    definition #>> ARRAY['properties', place.grouped, 'type'],
                    definition #>> ARRAY['properties', place.grouped]
                ) NOT IN ('string', 'long')
            )
            OR ({schema}.waited_for(
                place.queue_id, place.policy = 'unit_of_work', ARRAY[NULL::text],
                ARRAY[context ->> place.grouped], ARRAY[(context ->> place.numbered)::bigint]
            ))[1];
    END IF;
    RETURN CASE WHEN NOT fills THEN place.queue END;
END
$function$;

-- The queues that have an activation and that the caller may receive from. `ready`: in how many of its groups there is
-- something to do; of a queue without order, how many messages. It is counted to one more than there may be readers, and
-- of what nobody has judged yet only the first thousand are looked at.
CREATE OR REPLACE FUNCTION {schema}.activations()
RETURNS TABLE (
    queue_id integer, queue text, activation jsonb, enabled boolean, activated boolean, owner text, ready integer
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    at_us bigint := {schema}.now_us();
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    RETURN QUERY
    SELECT
        place.queue_id, place.queue, place.definition -> 'activation', place.enabled, place.activated, place.owner,
        CASE WHEN place.definition -> 'policy' ->> 'name' = 'unordered' THEN loose.ready ELSE grouped.ready END
    FROM {schema}.queues AS place
    CROSS JOIN LATERAL (
        SELECT least({schema}.whole_number(place.definition -> 'activation' -> 'maximum'), 1000)::integer + 1 AS readers
    ) AS most
    CROSS JOIN LATERAL (
        SELECT count(*)::integer AS ready FROM (
            SELECT FROM {schema}.entries AS entry
            WHERE place.definition -> 'policy' ->> 'name' = 'unordered' AND entry.queue_id = place.queue_id
                AND entry.status = 'arrived' AND (entry.visible_at IS NULL OR entry.visible_at <= clock_timestamp())
                AND (entry.subscription_ids <> '{{}}' AND entry.subscription_ids <@ (
                    SELECT array_agg(known.subscription_id) FROM {schema}.known_subscriptions AS known
                    WHERE known.queue_id = place.queue_id AND known.state <> 'started'
                )) IS NOT TRUE
            LIMIT most.readers
        ) AS entry
    ) AS loose
    CROSS JOIN LATERAL (
        SELECT count(*)::integer AS ready FROM (
            SELECT DISTINCT one.group_key FROM (
                (
                    SELECT known.group_key FROM {schema}.known_groups AS known
                    WHERE known.queue_id = place.queue_id AND known.ready_rank IS NOT NULL
                    ORDER BY known.ready_rank LIMIT most.readers
                ) UNION ALL (
                    SELECT known.group_key FROM {schema}.known_groups AS known
                    WHERE known.queue_id = place.queue_id AND known.due_at <= at_us
                    ORDER BY known.due_at LIMIT most.readers
                ) UNION ALL (
                    SELECT entry.group_key FROM {schema}.entries AS entry
                    WHERE entry.queue_id = place.queue_id AND entry.status = 'arrived' ORDER BY entry.rank LIMIT 1000
                ) UNION ALL (
                    SELECT asked.group_key FROM {schema}.requests AS asked
                    WHERE asked.queue_id = place.queue_id ORDER BY asked.rank LIMIT most.readers
                )
            ) AS one
            LIMIT most.readers
        ) AS known
    ) AS grouped
    WHERE place.definition -> 'activation' <> 'null'::jsonb
        AND ({schema}.is_owner() OR place.queue_id = ANY ({schema}.permitted('receive')));
END
$function$;

-- What each queue has, and what it has set aside. `in_hand`: of a pipeline; what a worker has is counted as it was
-- before. `oldest`: when the one came that has been there longest.
CREATE OR REPLACE VIEW {schema}.queue_counts AS
SELECT
    place.queue,
    place.definition -> 'policy' ->> 'name' AS policy,
    place.enabled,
    place.owner,
    entry.arrived,
    entry.held,
    entry.queued,
    entry.in_hand,
    aside.late,
    aside.duplicate,
    aside.invalid,
    aside.rejected,
    aside.dead,
    to_timestamp(entry.oldest_us / 1e6) AS oldest,
    {schema}.whole_number(place.definition -> 'max_messages') AS max_messages
FROM {schema}.queues AS place
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE status = 'arrived') AS arrived,
        count(*) FILTER (WHERE status = 'held') AS held,
        count(*) FILTER (WHERE status = 'queued') AS queued,
        count(*) FILTER (WHERE status = 'in_hand') AS in_hand,
        min(rank + (priority - 5) * 10000000) AS oldest_us
    FROM {schema}.entries AS one WHERE one.queue_id = place.queue_id
) AS entry
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE disposition = 'late') AS late,
        count(*) FILTER (WHERE disposition = 'duplicate') AS duplicate,
        count(*) FILTER (WHERE disposition = 'invalid') AS invalid,
        count(*) FILTER (WHERE disposition = 'rejected') AS rejected,
        count(*) FILTER (WHERE disposition = 'dead') AS dead
    FROM {schema}.aside AS one WHERE one.queue_id = place.queue_id
) AS aside;

-- The groups as they stand, read without locks. `state`: what a group shows; the rules are those of kernel/states.py.
-- `arrived`: not judged yet, so not in the state either; `in_hand`: of a pipeline. `hole_since`, `due_at`: NULL where nothing is open, or due.
-- `next`, `last_released` and `hole_through` are sequences as numbers: microseconds where a queue goes by time.
-- `suspended_by`: NULL where a rule of order has suspended it; `suspended_because` says which.
CREATE OR REPLACE VIEW {schema}.groups AS
WITH locked AS MATERIALIZED (
    SELECT (classid::bigint << 32) | objid::bigint AS lock FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION ALL
    SELECT {schema}.group_lock(queue_id, group_key) FROM {schema}.leases WHERE group_key IS NOT NULL
), known AS (
    SELECT
        queue_id, group_key, incarnation, flags, first, next, last, ordinal, since, reports, due_at
    FROM {schema}.known_groups
    UNION ALL
    SELECT DISTINCT
        queue_id, group_key, NULL::integer, 0::bigint, NULL::bigint, NULL::bigint, (-9223372036854775808)::bigint, 0::bigint,
        (-4611686018427387904)::bigint, 0::bigint, NULL::bigint
    FROM {schema}.entries AS entry
    WHERE status = 'arrived' AND NOT EXISTS (
        SELECT FROM {schema}.known_groups AS judged
        WHERE judged.queue_id = entry.queue_id AND judged.group_key = entry.group_key
    )
)
SELECT
    place.queue,
    known.group_key,
    {schema}.shown_state(
        known.flags, fact.suspended, fact.locked, fact.hole,
        policy.hole_timeout IS NOT NULL AND known.reports > policy.hole_retries
    ) AS state,
    fact.locked,
    CASE WHEN policy.name = 'standard' AND (policy.start <> 'first' OR known.flags & 1 <> 0) THEN known.next END AS next,
    entry.arrived,
    entry.held,
    entry.queued,
    CASE WHEN fact.hole THEN to_timestamp(known.since / 1e6) END AS hole_since,
    CASE WHEN fact.hole THEN entry.lowest - policy.increment END AS hole_through,
    nullif(known.last, -9223372036854775808) AS last_released,
    known.ordinal,
    coalesce(known.incarnation, place.incarnation) AS incarnation,
    to_timestamp(known.due_at / 1e6) AS due_at,
    CASE WHEN said.action = 'suspend' THEN said.actor END AS suspended_by,
    CASE
        WHEN said.action = 'suspend' THEN said.reason
        WHEN fact.suspended THEN {schema}.late_because(policy.name, known.first, came.sequence)
    END AS suspended_because,
    entry.in_hand
FROM known
JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL {schema}.policy_said(
    -- A type's own, where the key begins with the type.
    coalesce(place.definition -> 'policies' -> split_part(known.group_key, '/', 1), place.definition -> 'policy')
) AS policy
CROSS JOIN LATERAL (
    SELECT
        coalesce((
            SELECT action = 'suspend' FROM {schema}.requests AS request
            WHERE request.queue_id = known.queue_id AND request.group_key = known.group_key
                AND request.action <> 'look'
            ORDER BY request_id DESC LIMIT 1
        ), known.flags & 8 <> 0) AS suspended,
        {schema}.group_lock(known.queue_id, known.group_key) IN (SELECT lock FROM locked) AS locked,
        policy.name = 'standard' AND known.since <> -4611686018427387904 AS hole
) AS fact
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE status = 'arrived') AS arrived,
        count(*) FILTER (WHERE status = 'held') AS held,
        count(*) FILTER (WHERE status = 'queued') AS queued,
        count(*) FILTER (WHERE status = 'in_hand') AS in_hand,
        min(sequence) FILTER (WHERE status = 'held' AND NOT late) AS lowest
    FROM {schema}.entries AS one
    WHERE one.queue_id = known.queue_id AND one.group_key = known.group_key
) AS entry
LEFT JOIN LATERAL (
    SELECT action, actor, reason FROM {schema}.operator_log AS log
    WHERE fact.suspended AND log.queue = place.queue AND log.group_key = known.group_key
        AND action IN ('suspend', 'resume', 'skip_message', 'forget')
    ORDER BY operation_id DESC LIMIT 1
) AS said ON TRUE
LEFT JOIN LATERAL (
    SELECT late.sequence FROM {schema}.entries AS late
    WHERE fact.suspended AND said.action IS DISTINCT FROM 'suspend' AND late.queue_id = known.queue_id
        AND late.group_key = known.group_key AND late.status = 'held' AND late.late
    ORDER BY late.arrival LIMIT 1
) AS came ON TRUE
WHERE policy.name <> 'unordered';

-- Which of some queues have as many messages as they may, or more.
CREATE OR REPLACE FUNCTION {schema}.full_among(of_queues integer[]) RETURNS integer[]
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
BEGIN
    RETURN ARRAY(
        SELECT place.queue_id
        FROM {schema}.queues AS place
        CROSS JOIN LATERAL (SELECT {schema}.whole_number(place.definition -> 'max_messages') AS most) AS limited
        WHERE place.queue_id = ANY (of_queues) AND limited.most IS NOT NULL AND limited.most <= (
            SELECT count(*) FROM (
                SELECT FROM {schema}.entries AS entry WHERE entry.queue_id = place.queue_id LIMIT limited.most
            ) AS counted
        )
    );
END
$function$;

-- Deliver what waits in the transmission queue for services of these queues (NULL: of all) that are there, in order, as
-- far as their queues have room. What somebody has in his hands is passed over: he may wait for who calls this.
CREATE OR REPLACE FUNCTION {schema}.transmit_into(of_queues integer[]) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    one record;
    other record;
    gathered record;
    room bigint;
    filled integer[] := ARRAY[]::integer[];
    delivered bigint := 0;
BEGIN
    FOR one IN
        SELECT
            waiting.handle, waiting.to_service, own.conversation_id, own.is_initiator, own.is_monolog, place.queue_id,
            {schema}.whole_number(home.definition -> 'max_messages') AS most
        FROM (
            SELECT handle, to_service, min(transmission_id) AS since FROM {schema}.transmission
            WHERE of_queues IS NULL OR to_service IN (
                SELECT known.service FROM {schema}.services AS known WHERE known.queue_id = ANY (of_queues)
            ) GROUP BY handle, to_service
        ) AS waiting
        JOIN {schema}.endpoints AS own USING (handle)
        JOIN {schema}.services AS place ON place.service = waiting.to_service
        JOIN {schema}.queues AS home ON home.queue_id = place.queue_id
        WHERE place.definition -> 'contracts' ? own.contract OR NOT own.is_initiator
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
        -- Where somebody has changed it an insertion would wait for him.
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
            DELETE FROM {schema}.transmission AS waiting
            WHERE waiting.transmission_id IN (
                SELECT known.transmission_id FROM {schema}.transmission AS known
                WHERE known.handle = one.handle AND known.to_service = one.to_service
                ORDER BY known.transmission_id LIMIT room
            )
            RETURNING waiting.*
        )
        SELECT
            array_agg(other.handle) AS receivers, array_agg(type ORDER BY transmission_id) AS kinds,
            array_agg(content_type ORDER BY transmission_id) AS content_types,
            array_agg(body ORDER BY transmission_id) AS bodies, array_agg(sequence ORDER BY transmission_id) AS sequences
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
                SELECT FROM {schema}.transmission AS waiting WHERE waiting.handle = one.handle
            ) THEN
                PERFORM {schema}.become(one.handle, 'CD');
            END IF;
        END IF;
    END LOOP;
    RETURN delivered;
END
$function$;
