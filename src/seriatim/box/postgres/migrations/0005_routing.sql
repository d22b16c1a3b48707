-- Publishing from SQL, which is routed afterwards, and what no subscription wanted.

-- What comes into queues once more isn't handed out before the moment that it was published with.
CREATE FUNCTION {schema}.hide_again(arrival_ids bigint[], positions bigint[], of_queues integer[]) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    UPDATE {schema}.entries AS entry SET visible_at = stored.visible_at
    FROM unnest(arrival_ids, positions) AS message (arrival_id, position)
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[message.arrival_id]) AND stored.position = ANY (ARRAY[message.position])
    WHERE entry.arrival_id = ANY (ARRAY[message.arrival_id]) AND entry.position = ANY (ARRAY[message.position])
        AND entry.queue_id = ANY (of_queues) AND stored.visible_at > clock_timestamp();
END
$function$;

-- Put messages that were unrouted into queues. Answers FALSE, and does nothing, if the definitions have changed since
-- `known_version`. The arrays are those of `enter`; the caller has locked the rows of `unrouted`.
CREATE FUNCTION {schema}.route_again(
    known_version bigint, arrival_ids bigint[], positions bigint[], new_contexts text[], new_property_types text[],
    destinations integer[], problems text[],
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[]
) RETURNS boolean
LANGUAGE plpgsql
AS $function$
BEGIN
    IF known_version <> {schema}.hold_definitions() THEN
        RETURN FALSE;
    END IF;
    -- Those that nobody wants now either are entered there again, with what is wrong with them now.
    DELETE FROM {schema}.unrouted AS known
    USING unnest(arrival_ids, positions) AS message (arrival_id, position)
    WHERE known.arrival_id = ANY (ARRAY[message.arrival_id]) AND known.position = ANY (ARRAY[message.position]);
    UPDATE {schema}.spool AS stored
    SET context = message.context::jsonb, property_types = message.property_types::jsonb, destinations = message.queues
    FROM unnest(arrival_ids, positions, new_contexts, new_property_types, route_again.destinations)
        AS message (arrival_id, position, context, property_types, queues)
    WHERE stored.arrival_id = ANY (ARRAY[message.arrival_id]) AND stored.position = ANY (ARRAY[message.position])
        AND message.queues > 0;
    PERFORM {schema}.enter(
        arrival_ids, positions, destinations, problems, NULL, entry_places, entry_queues, entry_groups,
        entry_sequences, entry_sizes, entry_priorities, entry_problems, entry_subscriptions, NULL
    );
    PERFORM {schema}.hide_again(arrival_ids, positions, entry_queues);
    RETURN TRUE;
END
$function$;

-- Put messages into a queue that had set them aside as invalid: those that have a destination now; the others stay. Answers
-- FALSE, and does nothing, if the definitions have changed since `known_version`. The arrays are those of `enter`, with the
-- numbers that the messages had in the queue; the caller has locked the rows of `aside`.
CREATE FUNCTION {schema}.enter_again(
    known_version bigint, entry_ids bigint[], arrival_ids bigint[], positions bigint[], new_contexts text[],
    new_property_types text[], destinations integer[],
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[]
) RETURNS boolean
LANGUAGE plpgsql
AS $function$
BEGIN
    IF known_version <> {schema}.hold_definitions() THEN
        RETURN FALSE;
    END IF;
    DELETE FROM {schema}.aside AS known
    USING unnest(entry_ids, enter_again.destinations) AS message (entry_id, queues)
    WHERE known.entry_id = ANY (ARRAY[message.entry_id]) AND message.queues > 0;
    -- What another queue has, too, stays as that one knows it.
    UPDATE {schema}.spool AS stored
    SET context = message.context::jsonb, property_types = message.property_types::jsonb
    FROM unnest(arrival_ids, positions, new_contexts, new_property_types, enter_again.destinations)
        AS message (arrival_id, position, context, property_types, queues)
    WHERE stored.arrival_id = ANY (ARRAY[message.arrival_id]) AND stored.position = ANY (ARRAY[message.position])
        AND message.queues > 0 AND stored.destinations = 1;
    PERFORM {schema}.enter(
        arrival_ids, positions, array_replace(enter_again.destinations, 0, 1), NULL, NULL, entry_places, entry_queues,
        entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems, entry_subscriptions, NULL
    );
    PERFORM {schema}.hide_again(arrival_ids, positions, entry_queues);
    RETURN TRUE;
END
$function$;

-- May the caller route what was published through SQL?
CREATE FUNCTION {schema}.may_route() RETURNS boolean
LANGUAGE sql STABLE
RETURN {schema}.is_owner() OR cardinality({schema}.permitted('route')) > 0;

-- A part of a message, as SQL gives it to `publish`.
CREATE TYPE {schema}.part AS (name text, content_type text, body bytea);

-- Take a message in, within the caller's transaction: for triggers, procedures and other languages. It gets its ticket
-- when the transaction commits, and is then routed by whoever comes first. Answers with its id. A message whose id was
-- published before is left out. docs/how-to/publish-from-sql.md describes it.
CREATE FUNCTION {schema}.publish(
    type text, body bytea, context jsonb DEFAULT '{{}}', message_id text DEFAULT NULL, content_type text DEFAULT NULL,
    location text DEFAULT 'box', parts {schema}.part[] DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    id text := coalesce(message_id, {schema}.new_message_id());
    wrong text;
    permitted integer[];
    arrival bigint;
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    wrong := CASE
        WHEN coalesce(type, '') = '' THEN 'a message needs a type'
        WHEN body IS NULL THEN 'the body of a message can''t be NULL, but it can be empty'
        WHEN octet_length(body) > 536870912 THEN 'the body of a message can have 536870912 bytes at most'
        WHEN content_type = '' THEN 'the content type of a message can''t be empty, but it can be NULL'
        WHEN id = '' THEN 'the id of a message can''t be empty; left out, it is made'
        -- An index has to take it.
        WHEN octet_length(id) > 1024 THEN 'the id of a message can have 1024 bytes at most'
        WHEN coalesce(jsonb_typeof(context), 'null') <> 'object' THEN
            'the context of a message is a JSON object: its properties'
        WHEN coalesce(length(location), 0) NOT BETWEEN 1 AND 128 THEN 'the name of a location has 1 to 128 characters'
        WHEN location <> 'box' AND context -> 'location' <> to_jsonb(location) THEN
            'the location is given twice: as an argument, and as a property'
    END;
    IF wrong IS NULL AND context <> '{{}}' THEN
        SELECT format('the property "%s" %s', left(property.key, 128), looked.problem) INTO wrong
        FROM jsonb_each(context) AS property, LATERAL (SELECT CASE
            WHEN property.key = ANY ('{{type,message_id,ticket,epoch,received_at}}') THEN
                'can''t be given: it is an argument, or the box gives it'
            WHEN jsonb_typeof(property.value) IN ('object', 'array') THEN
                'can''t be an ' || jsonb_typeof(property.value) || ': a string, a number, a boolean or null'
            WHEN jsonb_typeof(property.value) = 'number' AND length(property.value::text) > 100 THEN
                'has more digits than a property can have'
            WHEN property.key = 'location' AND jsonb_typeof(property.value) <> 'null' AND (
                jsonb_typeof(property.value) <> 'string'
                OR length(property.value #>> '{{}}') NOT BETWEEN 1 AND 128
            ) THEN 'is not a location''s name: 1 to 128 characters'
        END AS problem) AS looked
        WHERE looked.problem IS NOT NULL ORDER BY property.key LIMIT 1;
    END IF;
    IF wrong IS NULL AND cardinality(parts) > 0 THEN
        SELECT format('part %s %s', part.number, looked.problem) INTO wrong
        FROM unnest(parts) WITH ORDINALITY AS part (name, content_type, body, number), LATERAL (SELECT CASE
            WHEN coalesce(length(part.name), 0) NOT BETWEEN 1 AND 256 THEN 'needs a name of 1 to 256 characters'
            WHEN part.content_type = '' THEN 'can''t have an empty content type, but it can be NULL'
            WHEN part.body IS NULL THEN 'can''t be NULL, but its body can be empty'
            WHEN part.number > (
                SELECT min(other.number) FROM unnest(parts) WITH ORDINALITY AS other (name, content_type, body, number)
                WHERE other.name = part.name
            ) THEN format('has the name of another one, "%s"', left(part.name, 128))
        END AS problem) AS looked
        WHERE looked.problem IS NOT NULL ORDER BY part.number LIMIT 1;
        IF octet_length(body) + (SELECT sum(octet_length(part.body)) FROM unnest(parts) AS part) > 536870912 THEN
            wrong := 'the body of a message can have 536870912 bytes at most, its parts included';
        END IF;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION '%', wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO {schema}.message_ids (message_id) VALUES (id) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN id;
    END IF;
    IF context ? 'to' AND {schema}.full_for(context) IS NOT NULL THEN
        RAISE EXCEPTION 'the queue "%" is full', context ->> 'to' USING
            ERRCODE = 'configuration_limit_exceeded',
            HINT = 'publish the message again later';
    END IF;
    IF location <> 'box' THEN
        context := context || jsonb_build_object('location', location);
    END IF;
    IF NOT {schema}.is_owner() THEN
        permitted := {schema}.permitted('publish');
    END IF;
    INSERT INTO {schema}.arrivals (location, count, queue_ids, publisher, permitted)
    VALUES (coalesce(context ->> 'location', location), 1, '{{0}}', {schema}.caller(), permitted)
    RETURNING arrival_id INTO arrival;
    INSERT INTO {schema}.spool (arrival_id, position, message_id, type, content_type, context, body, parts)
    VALUES (arrival, 0, id, type, content_type, context, body, nullif(cardinality(parts), 0));
    IF cardinality(parts) > 0 THEN
        INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
        SELECT arrival, 0, part.number, part.name, part.content_type, part.body
        FROM unnest(parts) WITH ORDINALITY AS part (name, content_type, body, number);
    END IF;
    RETURN id;
END
$function$;

-- Does something wait to be routed? NULL: it does, and the caller may not route it. `settled`, `unsettled`: where to look.
CREATE FUNCTION {schema}.is_unrouted(settled xid8, unsettled xid8[]) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    IF NOT {schema}.is_left(settled, unsettled) THEN
        RETURN FALSE;
    END IF;
    RETURN CASE WHEN {schema}.may_route() THEN TRUE END;
END
$function$;

-- The next messages that wait to be routed, in order of commit: so many, and so many bytes of bodies, but one at least.
-- One transaction at a time routes. `permitted`: the queues that the publisher may publish to; NULL: all. `settled`,
-- `unsettled`: where to look, so that where little waits only that is read.
CREATE FUNCTION {schema}.pending(at_most integer, at_most_bytes bigint, settled xid8, unsettled xid8[])
RETURNS TABLE (
    arrival_id bigint, "position" bigint, message_id text, type text, content_type text, context text, body bytea,
    received_at timestamptz, publisher text, permitted integer[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    near record;
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim routing', '{schema}'::regnamespace::oid::bigint));
    -- Statements of their own: their snapshots are younger than the lock. What comes between the two waits longer.
    SELECT count(*) AS count, min(stamp) AS first_stamp INTO near FROM (
        (
            SELECT stamp FROM {schema}.to_route WHERE transaction >= settled ORDER BY transaction
        ) UNION ALL (
            SELECT stamp FROM {schema}.to_route WHERE transaction = ANY (unsettled)
        ) LIMIT at_most
    ) AS found;
    RETURN QUERY
    SELECT
        stored.arrival_id, stored.position::bigint, stored.message_id, stored.type, stored.content_type,
        stored.context::text,
        stored.body, stored.received_at, found.publisher, found.permitted
    FROM (
        SELECT
            waiting.*,
            sum(octet_length(stored.body)) OVER (ORDER BY waiting.stamp, waiting.position)
                - octet_length(stored.body) AS bytes_before
        FROM (
            SELECT * FROM {schema}.to_route
            WHERE stamp >= CASE WHEN near.count < at_most THEN near.first_stamp ELSE 0 END
            ORDER BY stamp, position LIMIT at_most
        ) AS waiting
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[waiting.arrival_id]) AND stored.position = ANY (ARRAY[waiting.position])
    ) AS found
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[found.arrival_id]) AND stored.position = ANY (ARRAY[found.position])
    WHERE found.bytes_before < at_most_bytes
    ORDER BY found.stamp, found.position;
END
$function$;

-- Put messages that wait to be routed into queues, and call whoever waits for them there; the arrays are those of
-- `enter`. Answers FALSE, and does nothing, if the definitions have changed.
CREATE FUNCTION {schema}.route(
    known_version bigint, arrival_ids bigint[], positions bigint[], contexts text[], property_types text[],
    destinations integer[], problems text[],
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[]
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    gone bigint;
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    IF NOT {schema}.route_again(
        known_version, arrival_ids, positions, contexts, property_types, destinations, problems, entry_places,
        entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems,
        entry_subscriptions
    ) THEN
        RETURN FALSE;
    END IF;
    DELETE FROM {schema}.to_route AS known USING unnest(arrival_ids, positions) AS message (arrival_id, position)
    WHERE known.arrival_id = ANY (ARRAY[message.arrival_id]) AND known.position = ANY (ARRAY[message.position]);
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone <> cardinality(arrival_ids) THEN
        RAISE EXCEPTION 'these messages don''t wait to be routed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM {schema}.call_waiters(ARRAY(SELECT DISTINCT unnest(entry_queues)), gone);
    RETURN TRUE;
END
$function$;
