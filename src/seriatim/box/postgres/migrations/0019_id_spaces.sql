-- Whose message ids are whose, which types a role may subscribe to, and what a role may hand in.

-- The id space of each role that has rights: message ids are compared within one space only, so that no role learns of
-- another's ids, or takes them. The owner, and what it does for others, is in the space ''. `since_upgrade`: the role had
-- rights before there were id spaces, and stays in the owner's as long as nobody gives it another.
CREATE TABLE {schema}.id_spaces (
    role regrole PRIMARY KEY,
    id_space text COLLATE "C" NOT NULL CHECK (length(id_space) <= 128),
    since_upgrade boolean NOT NULL DEFAULT FALSE
);
INSERT INTO {schema}.id_spaces (role, id_space, since_upgrade) SELECT DISTINCT role, '', TRUE FROM {schema}.grants;

-- The types of messages that the subscriptions of a role may match. A type needn't be declared.
CREATE TABLE {schema}.granted_types (
    role regrole NOT NULL,
    type text COLLATE "C" NOT NULL CHECK (length(type) BETWEEN 1 AND 128),
    granted_at timestamptz NOT NULL DEFAULT now(),
    granted_by text NOT NULL DEFAULT session_user,
    PRIMARY KEY (role, type)
);

ALTER TABLE {schema}.message_ids ADD id_space text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE {schema}.message_ids DROP CONSTRAINT message_ids_pkey;
ALTER TABLE {schema}.message_ids ADD PRIMARY KEY (message_id, id_space);
ALTER TABLE {schema}.spool ADD id_space text COLLATE "C" NOT NULL DEFAULT '';

-- `subscriber`: the role by whose right a subscription was made; NULL: it is the owner's. It matches messages of the types
-- only that this role is granted, and gives nobody who publishes anything to ask for.
ALTER TABLE {schema}.known_subscriptions ADD subscriber regrole;

-- The id space of a role that isn't the owner: its own; or of the roles that it is a member of that of one which may publish,
-- the first by name; or its name.
CREATE FUNCTION {schema}.space_of_role(who name) RETURNS text
LANGUAGE plpgsql STABLE
AS $function$
DECLARE
    found text := (SELECT known.id_space FROM {schema}.id_spaces AS known WHERE known.role = to_regrole(quote_ident(who)));
BEGIN
    IF found IS NULL THEN
        found := (
            SELECT known.id_space FROM {schema}.id_spaces AS known
            WHERE pg_has_role(who, known.role::oid, 'USAGE')
                AND EXISTS (SELECT FROM {schema}.grants AS given WHERE given.role = known.role AND given.may = 'publish')
            ORDER BY known.id_space LIMIT 1
        );
    END IF;
    RETURN coalesce(found, who);
END
$function$;

-- The id space of the caller.
CREATE FUNCTION {schema}.id_space() RETURNS text
LANGUAGE sql STABLE
RETURN CASE WHEN {schema}.is_owner() THEN '' ELSE {schema}.space_of_role({schema}.caller()) END;

-- The types that subscriptions of a role match now: those granted to it, and to roles that it is a member of.
CREATE FUNCTION {schema}.types_of(subscriber regrole) RETURNS text[]
LANGUAGE sql STABLE
RETURN ARRAY(
    SELECT DISTINCT known.type FROM {schema}.granted_types AS known
    WHERE known.role = subscriber OR pg_has_role(subscriber::oid, known.role::oid, 'USAGE') ORDER BY known.type
);

-- Is a message in a queue only because roles have subscribed to its type? Then whoever publishes it needs no right there.
CREATE FUNCTION {schema}.is_asked_for(of_queue integer, by_subscriptions integer[], of_type text) RETURNS boolean
LANGUAGE sql STABLE
RETURN cardinality(by_subscriptions) > 0 AND NOT EXISTS (
    SELECT FROM unnest(by_subscriptions) AS one (id)
    LEFT JOIN {schema}.known_subscriptions AS known
        ON known.subscription_id = one.id AND known.queue_id = of_queue AND known.state <> 'unenlisted'
    WHERE (known.subscriber IS NOT NULL AND of_type = ANY ({schema}.types_of(known.subscriber))) IS NOT TRUE
);

-- Does a role's subscription lead to this queue? Then anybody who may publish can fill it, and may know whether it is full.
CREATE FUNCTION {schema}.is_subscribed(of_queue integer) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (
    SELECT FROM {schema}.known_subscriptions AS known
    WHERE known.queue_id = of_queue AND known.subscriber IS NOT NULL
);

-- What is wrong with the properties of a message that are large, or have types beside JSON's; NULL: nothing.
CREATE FUNCTION {schema}.wrong_properties(properties jsonb, property_types jsonb) RETURNS text
LANGUAGE plpgsql STABLE
AS $function$
BEGIN
    IF EXISTS (
        SELECT FROM jsonb_each(properties) AS one
        WHERE jsonb_typeof(one.value) = 'number' AND length(one.value::text) > 100
    ) THEN
        RETURN 'a property has more digits than a property can have';
    END IF;
    IF jsonb_typeof(property_types) <> 'object' THEN
        RETURN 'the types of properties are a JSON object';
    END IF;
    IF property_types IS NOT NULL AND EXISTS (
        SELECT FROM jsonb_each(property_types) AS one
        WHERE CASE WHEN jsonb_typeof(properties -> one.key) = 'null' THEN FALSE ELSE CASE one.value
            WHEN '"decimal"' THEN jsonb_typeof(properties -> one.key) = 'number'
            WHEN '"double"' THEN jsonb_typeof(properties -> one.key) = 'number'
            WHEN '"timestamp"' THEN
                properties ->> one.key
                ~ '^\d{{4}}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{{6}}\+00:00$'
                AND isfinite((properties ->> one.key)::timestamptz)
        END IS NOT TRUE END
    ) THEN
        RETURN 'a property isn''t of the type that is said of it';
    END IF;
    RETURN NULL;
END
$function$;

-- What is wrong with a message as it is handed in; NULL: nothing. `property_types`: of the properties that JSON has no type
-- for; who receives it makes values of them. One expression, so that it isn't called for each message.
CREATE FUNCTION {schema}.wrong_message(
    id text, of_type text, at_location text, of_content_type text, properties jsonb, property_types jsonb, body bytea
) RETURNS text
LANGUAGE sql STABLE
RETURN CASE
    WHEN coalesce(of_type, '') = '' THEN 'a message needs a type'
    WHEN coalesce(octet_length(id), 0) NOT BETWEEN 1 AND 1024 THEN 'the id of a message has 1 to 1024 bytes'
    WHEN coalesce(length(at_location), 0) NOT BETWEEN 1 AND 128 THEN 'the name of a location has 1 to 128 characters'
    WHEN of_content_type = '' THEN 'the content type of a message can''t be empty, but it can be NULL'
    WHEN body IS NULL THEN 'the body of a message can''t be NULL, but it can be empty'
    WHEN octet_length(body) > 536870912 THEN 'the body of a message can have 536870912 bytes at most'
    WHEN jsonb_typeof(properties) IS DISTINCT FROM 'object' THEN
        'the context of a message is a JSON object: its properties'
    WHEN properties ?| '{{type,message_id,ticket,epoch,received_at}}' THEN
        'type, message_id, ticket, epoch and received_at can''t be given as properties'
    WHEN properties @? 'strict $.* ? (@.type() == "object" || @.type() == "array")' THEN
        'a property is a string, a number, a boolean or null'
    -- A number of more digits makes the whole longer.
    WHEN property_types IS NOT NULL OR length(properties::text) > 100 THEN
        {schema}.wrong_properties(properties, property_types)
END;

-- What is wrong with an entry for a queue of that policy; NULL: nothing.
CREATE FUNCTION {schema}.wrong_entry(policy text, of_group text, of_sequence bigint, of_priority bigint, problem text)
RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN octet_length(of_group) > 1024 THEN 'the key of a group has 1,024 bytes at most'
    WHEN (of_priority BETWEEN 1 AND 10) IS NOT TRUE THEN 'a priority is from 1 to 10'
    WHEN problem = '' OR length(problem) > 2000 THEN 'what is wrong with it has 1 to 2000 characters'
    WHEN problem IS NOT NULL THEN NULL
    WHEN policy = 'unordered' THEN CASE WHEN of_group IS DISTINCT FROM '' THEN 'messages of this queue have no group' END
    WHEN of_group IS NULL THEN 'messages of this queue have a group'
    WHEN policy <> 'fifo' AND of_sequence IS NULL THEN 'messages of this queue have a sequence'
END;

-- What is wrong with entries for queues as they are handed in; NULL: nothing. The arrays are those of `enter`; `destinations`
-- has an item for each message.
CREATE FUNCTION {schema}.wrong_entries(
    destinations integer[], entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[]
) RETURNS text
LANGUAGE plpgsql STABLE
AS $function$
DECLARE
    wrong text;
BEGIN
    IF (cardinality(entry_places) = ALL (ARRAY[
        cardinality(entry_queues), cardinality(entry_groups), cardinality(entry_sequences), cardinality(entry_sizes),
        cardinality(entry_priorities), cardinality(entry_problems), cardinality(entry_subscriptions)
    ])) IS NOT TRUE THEN
        RETURN 'the columns are not of one length';
    END IF;
    SELECT looked.problem INTO wrong
    FROM unnest(
        entry_places, entry_queues, entry_groups, entry_sequences, entry_priorities, entry_problems
    ) AS one (place, queue_id, group_key, sequence, priority, problem)
    LEFT JOIN {schema}.queues AS known ON known.queue_id = one.queue_id
    CROSS JOIN LATERAL (SELECT CASE
        WHEN (one.place BETWEEN 1 AND cardinality(destinations)) IS NOT TRUE THEN 'an entry is of no message'
        WHEN known.queue_id IS NULL THEN 'an entry is for no queue'
        ELSE {schema}.wrong_entry(
            known.definition #>> '{{policy,name}}', one.group_key, one.sequence, one.priority, one.problem
        )
    END AS problem) AS looked
    WHERE looked.problem IS NOT NULL LIMIT 1;
    IF wrong IS NULL AND EXISTS (
        SELECT FROM unnest(destinations) WITH ORDINALITY AS one (queues, place)
        LEFT JOIN (
            SELECT taken.place, count(*) AS queues, count(DISTINCT taken.queue_id) AS others
            FROM unnest(entry_places, entry_queues) AS taken (place, queue_id) GROUP BY taken.place
        ) AS entry USING (place)
        WHERE one.queues IS DISTINCT FROM coalesce(entry.queues, 0) OR entry.queues <> entry.others
    ) THEN
        wrong := 'the number of its queues is another one, or a message is in a queue twice';
    END IF;
    RETURN wrong;
END
$function$;

-- What is wrong with the moment from which messages are handed out; NULL: nothing.
CREATE FUNCTION {schema}.wrong_moment(seen_from timestamptz) RETURNS text
LANGUAGE sql STABLE
RETURN CASE WHEN NOT isfinite(seen_from) OR seen_from > now() + interval '10001 days' THEN
    'a message can be hidden for 10,000 days at most' END;

-- Refuse a caller that isn't the owner what it may not publish, and what nobody could work with who receives it. The arrays
-- are those of `take_in`; what is needed of each queue is known by its policy.
CREATE FUNCTION {schema}.permit_incoming(
    message_ids text[], types text[], locations text[], content_types text[],
    contexts text[], property_types text[], bodies bytea[], destinations integer[], problems text[],
    seen_from timestamptz,
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    part_counts integer[], part_places bigint[], part_names text[], part_content_types text[], part_bodies bytea[]
) RETURNS void
LANGUAGE plpgsql STABLE
AS $function$
DECLARE
    many integer := cardinality(message_ids);
    named integer := cardinality(part_places);
    granted integer[] := {schema}.permitted('publish');
    wrong text;
BEGIN
    IF cardinality(granted) = 0 OR (entry_queues <@ granted) IS NOT TRUE THEN
        PERFORM {schema}.permit('publish', ARRAY(
            SELECT DISTINCT one.queue_id
            FROM unnest(entry_places, entry_queues, entry_subscriptions) AS one (place, queue_id, subscription_ids)
            WHERE one.queue_id IS NOT NULL AND one.queue_id <> ALL (granted)
                AND {schema}.is_asked_for(one.queue_id, one.subscription_ids::integer[], types[one.place]) IS NOT TRUE
        ));
    END IF;
    IF (
        many = ALL (ARRAY[
            cardinality(types), cardinality(locations), cardinality(content_types), cardinality(contexts),
            cardinality(property_types), cardinality(bodies), cardinality(destinations), cardinality(problems)
        ])
        AND (part_counts IS NULL OR (many = cardinality(part_counts) AND named = ALL (ARRAY[
            cardinality(part_names), cardinality(part_content_types), cardinality(part_bodies)
        ])))
    ) IS NOT TRUE THEN
        wrong := 'the columns are not of one length';
    ELSE
        wrong := {schema}.wrong_moment(seen_from);
    END IF;
    IF wrong IS NULL THEN
        SELECT coalesce(
            {schema}.wrong_message(
                one.id, one.type, one.location, one.content_type, one.properties, one.property_types, one.body
            ),
            CASE WHEN one.problem = '' OR length(one.problem) > 2000 THEN 'what is wrong with it has 1 to 2000 characters' END
        ) INTO wrong
        FROM (
            SELECT
                given.id, given.type, given.location, given.content_type, given.context::jsonb AS properties,
                given.types_of_it::jsonb AS property_types, given.body, given.problem
            FROM unnest(
                message_ids, types, locations, content_types, contexts, property_types, bodies, problems
            ) AS given (id, type, location, content_type, context, types_of_it, body, problem)
            OFFSET 0
        ) AS one
        ORDER BY 1 LIMIT 1;
        wrong := coalesce(wrong, {schema}.wrong_entries(
            destinations, entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities,
            entry_problems, entry_subscriptions
        ));
        IF wrong IS NULL AND part_counts IS NOT NULL THEN
            SELECT CASE
                WHEN coalesce(length(one.name), 0) NOT BETWEEN 1 AND 256 THEN 'a part needs a name of 1 to 256 characters'
                WHEN one.content_type = '' THEN 'a part can''t have an empty content type, but it can be NULL'
                WHEN one.body IS NULL THEN 'a part can''t be NULL, but its body can be empty'
                WHEN part_counts[one.place] IS DISTINCT FROM cardinality(array_positions(part_places, one.place)) THEN
                    'a message has another number of parts'
            END INTO wrong
            FROM unnest(part_places, part_names, part_content_types, part_bodies) AS one (place, name, content_type, body)
            ORDER BY 1 LIMIT 1;
        END IF;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION '%', wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$function$;

-- Take messages in, with the queues that they were routed to. Answers NULL, and takes nothing in, if the definitions have
-- changed since `known_version`; else with the places of those that were published before in the caller's id space, which
-- are left out. The arrays are those of `enter`; `destinations` says how many queues get each message. They are ordered at
-- once, and handed out from `visible_at`, or after the `delay`. The last arrays are their parts; `part_counts` is NULL where
-- none has any. `by_itself`: the commit follows at once, and what would be done there is done here. `flushed`: afterwards the
-- caller sees to it that it is on disk, and nobody who waits for a location has to wait for the disk.
DROP FUNCTION {schema}.take_in;
CREATE FUNCTION {schema}.take_in(
    known_version bigint, message_ids text[], types text[], locations text[], content_types text[],
    contexts text[], property_types text[], bodies bytea[], destinations integer[], problems text[],
    visible_at timestamptz, delay interval,
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    part_counts integer[], part_places bigint[], part_names text[], part_content_types text[], part_bodies bytea[],
    by_itself boolean, flushed boolean
) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    seen_from timestamptz := coalesce(visible_at, clock_timestamp() + delay);
    space text := '';
    arrival_ids bigint[];
    positions bigint[];
    numbered bigint[];
    stamped bigint[];
    stamps bigint[];
    early text;
BEGIN
    IF NOT {schema}.is_owner() THEN
        PERFORM {schema}.permit_incoming(
            message_ids, types, locations, content_types, contexts, property_types, bodies, destinations, problems,
            seen_from, entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities,
            entry_problems, entry_subscriptions, part_counts, part_places, part_names, part_content_types, part_bodies
        );
        space := {schema}.space_of_role({schema}.caller());
    END IF;
    IF known_version IS DISTINCT FROM {schema}.hold_definitions() THEN
        RETURN NULL;
    END IF;
    WITH incoming AS MATERIALIZED (
        SELECT * FROM unnest(message_ids, locations) WITH ORDINALITY AS message (message_id, location, place)
    ), fresh AS (
        -- In one order for all publishers, so that two of them never wait for each other crosswise.
        INSERT INTO {schema}.message_ids (message_id, id_space)
        SELECT message_id, space FROM incoming ORDER BY message_id
        ON CONFLICT DO NOTHING
        RETURNING message_id
    ), numbered AS MATERIALIZED (
        SELECT place, location, row_number() OVER (PARTITION BY location ORDER BY place) - 1 AS position
        FROM incoming JOIN fresh USING (message_id)
    ), arrived AS (
        INSERT INTO {schema}.arrivals (location, count, queue_ids)
        SELECT location, count(*), ARRAY(SELECT DISTINCT unnest(entry_queues)) FROM numbered GROUP BY location
        RETURNING arrival_id, location
    )
    SELECT
        array_agg(coalesce(arrival_id, 0) ORDER BY place), array_agg(coalesce(position, 0) ORDER BY place)
    INTO arrival_ids, positions
    FROM incoming LEFT JOIN (
        SELECT place, position, arrival_id FROM numbered JOIN arrived USING (location)
    ) AS placed USING (place);
    INSERT INTO {schema}.spool (
        arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, visible_at,
        parts, id_space
    )
    SELECT
        arrival_ids[place], positions[place], message_id, type, content_type, context::jsonb,
        message.property_types::jsonb, body, queues, seen_from, parts, space
    FROM unnest(
        message_ids, types, content_types, contexts, property_types, bodies, destinations, part_counts
    ) WITH ORDINALITY AS message (message_id, type, content_type, context, property_types, body, queues, parts, place)
    WHERE arrival_ids[place] > 0;
    IF part_counts IS NOT NULL THEN
        INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
        SELECT arrival_ids[place], positions[place], number, name, content_type, body
        FROM unnest(part_places, part_names, part_content_types, part_bodies)
            WITH ORDINALITY AS part (place, name, content_type, body, number)
        WHERE arrival_ids[place] > 0;
    END IF;
    IF flushed THEN
        early := {schema}.commit_early();
    END IF;
    IF by_itself THEN
        -- From here on nobody else gets a number of these locations: what comes in order of commit can be written so.
        SET CONSTRAINTS {schema}.number_at_commit IMMEDIATE;
        SELECT array_agg(run.arrival_id), array_agg(run.stamp) INTO numbered, stamped
        FROM {schema}.tickets AS run WHERE run.arrival_id = ANY (ARRAY(SELECT DISTINCT unnest(arrival_ids)));
        stamps := ARRAY(
            SELECT stamped[array_position(numbered, arrival_id)]
            FROM unnest(arrival_ids) WITH ORDINALITY AS arrival (arrival_id, place) ORDER BY place
        );
    END IF;
    PERFORM {schema}.enter(
        arrival_ids, positions, destinations, problems, seen_from, entry_places, entry_queues, entry_groups,
        entry_sequences, entry_sizes, entry_priorities, entry_problems, entry_subscriptions, stamps
    );
    RETURN coalesce(array_positions(arrival_ids, 0), '{{}}');
END
$function$;

-- As `take_in`, for one message without parts that goes to one queue: without arrays, joins and sorts. TRUE: it is taken in;
-- FALSE: it was published before.
DROP FUNCTION {schema}.take_in_one;
CREATE FUNCTION {schema}.take_in_one(
    known_version bigint, of_message text, of_type text, at_location text, of_content_type text,
    of_context text, of_property_types text, of_body bytea, visible_at timestamptz, delay interval,
    of_queue integer, of_group text, of_sequence bigint, of_size bigint, of_priority integer, by_subscriptions integer[],
    by_itself boolean, flushed boolean
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    seen_from timestamptz := coalesce(visible_at, clock_timestamp() + delay);
    space text := '';
    granted integer[];
    wrong text;
    arrival bigint;
    stamped bigint;
    early text;
BEGIN
    IF NOT {schema}.is_owner() THEN
        granted := {schema}.permitted('publish');
        IF (of_queue = ANY (granted)) IS NOT TRUE THEN
            IF cardinality(granted) = 0 OR {schema}.is_asked_for(of_queue, by_subscriptions, of_type) IS NOT TRUE THEN
                PERFORM {schema}.permit('publish', ARRAY[of_queue]);
            END IF;
        END IF;
        wrong := coalesce(
            {schema}.wrong_message(
                of_message, of_type, at_location, of_content_type, of_context::jsonb, of_property_types::jsonb, of_body
            ),
            {schema}.wrong_moment(seen_from)
        );
        IF wrong IS NULL THEN
            SELECT {schema}.wrong_entry(known.definition #>> '{{policy,name}}', of_group, of_sequence, of_priority, NULL)
            INTO wrong FROM {schema}.queues AS known WHERE known.queue_id = of_queue;
        END IF;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION '%', wrong USING ERRCODE = 'invalid_parameter_value';
        END IF;
        space := {schema}.space_of_role({schema}.caller());
    END IF;
    IF known_version IS DISTINCT FROM {schema}.hold_definitions() THEN
        RETURN NULL;
    END IF;
    INSERT INTO {schema}.message_ids (message_id, id_space) VALUES (of_message, space) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    IF by_itself THEN
        arrival := nextval('{schema}.arrival_ids');
    ELSE
        INSERT INTO {schema}.arrivals (location, count, queue_ids) VALUES (at_location, 1, ARRAY[of_queue])
        RETURNING arrival_id INTO arrival;
    END IF;
    INSERT INTO {schema}.spool (
        arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, visible_at,
        id_space
    ) VALUES (
        arrival, 0, of_message, of_type, of_content_type, of_context::jsonb, of_property_types::jsonb, of_body, 1,
        seen_from, space
    );
    IF flushed THEN
        early := {schema}.commit_early();
    END IF;
    IF by_itself THEN
        -- Without a row that says at the commit what is to be done there.
        IF EXISTS (SELECT FROM {schema}.waiters) THEN
            PERFORM {schema}.call_waiters(ARRAY[of_queue], 1);
        END IF;
        stamped := ({schema}.dispense(at_location, 1, arrival)).stamp;
    END IF;
    INSERT INTO {schema}.entries (
        queue_id, group_key, rank, arrival_id, position, sequence, size, priority, visible_at, subscription_ids, stamp
    ) VALUES (
        of_queue, of_group, {schema}.now_us() - (of_priority - 5) * 10000000, arrival, 0, of_sequence, of_size,
        of_priority, seen_from, by_subscriptions, stamped
    );
    RETURN TRUE;
END
$function$;

-- Put messages that wait to be routed into queues, and call whoever waits for them there; the arrays are those of
-- `enter`. Answers FALSE, and does nothing, if the definitions have changed.
CREATE OR REPLACE FUNCTION {schema}.route(
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
    wrong text;
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    IF NOT {schema}.is_owner() THEN
        wrong := {schema}.wrong_entries(
            destinations, entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities,
            entry_problems, entry_subscriptions
        );
        IF (cardinality(arrival_ids) = ALL (ARRAY[
            cardinality(positions), cardinality(contexts), cardinality(property_types), cardinality(destinations),
            cardinality(problems)
        ])) IS NOT TRUE THEN
            wrong := 'the columns are not of one length';
        END IF;
        IF wrong IS NULL THEN
            SELECT {schema}.wrong_message('x', 'x', 'x', NULL, one.context::jsonb, one.types_of_it::jsonb, '') AS problem
            INTO wrong FROM unnest(contexts, property_types, destinations) AS one (context, types_of_it, queues)
            WHERE one.queues > 0 ORDER BY 1 LIMIT 1;
        END IF;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION '%', wrong USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END IF;
    IF known_version IS DISTINCT FROM {schema}.hold_definitions() THEN
        RETURN FALSE;
    END IF;
    -- First of all: whoever routes touches nothing else, and is told nothing of it.
    DELETE FROM {schema}.to_route AS known USING unnest(arrival_ids, positions) AS message (arrival_id, position)
    WHERE known.arrival_id = ANY (ARRAY[message.arrival_id]) AND known.position = ANY (ARRAY[message.position]);
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone <> cardinality(arrival_ids) THEN
        RAISE EXCEPTION 'these messages don''t wait to be routed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM {schema}.route_again(
        known_version, arrival_ids, positions, contexts, property_types, destinations, problems, entry_places,
        entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems,
        entry_subscriptions
    );
    PERFORM {schema}.call_waiters(ARRAY(SELECT DISTINCT unnest(entry_queues)), gone);
    RETURN TRUE;
END
$function$;

-- How many more messages each of some queues may take, where `mosts` says how many it may have. Reads so many entries
-- of an index.
CREATE OR REPLACE FUNCTION {schema}.room_in(of_queues integer[], mosts bigint[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    IF NOT {schema}.is_owner() THEN
        PERFORM {schema}.permit('publish', ARRAY(
            SELECT one.queue_id FROM unnest(of_queues) AS one (queue_id) WHERE NOT {schema}.is_subscribed(one.queue_id)
        ));
    END IF;
    RETURN ARRAY(
        SELECT most - (
            SELECT count(*) FROM (SELECT FROM {schema}.entries WHERE queue_id = queue LIMIT most) AS counted
        )
        FROM unnest(of_queues, mosts) WITH ORDINALITY AS asked (queue, most, place)
        ORDER BY place
    );
END
$function$;

-- Which of some messages a full queue takes nevertheless: those that fill a hole, because something later of their group
-- (`whole`: anything of their set) is there and waits for them, and they aren't; and those that were published before in the
-- caller's id space, which add nothing. A caller that may not publish there, to whom a role's subscription leads its
-- messages, is told nothing of what waits there.
CREATE OR REPLACE FUNCTION {schema}.waited_for(
    of_queue integer, whole boolean, ids text[], group_keys text[], sequences bigint[]
) RETURNS boolean[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    may_know boolean := {schema}.is_owner() OR of_queue = ANY ({schema}.permitted('publish'));
    space text := {schema}.id_space();
BEGIN
    IF NOT may_know AND NOT {schema}.is_subscribed(of_queue) THEN
        PERFORM {schema}.permit('publish', ARRAY[of_queue]);
    END IF;
    RETURN ARRAY(
        SELECT EXISTS (
            SELECT FROM {schema}.message_ids AS known
            WHERE known.message_id = asked.message_id AND known.id_space = space
        ) OR may_know AND EXISTS (
            SELECT FROM {schema}.entries AS later
            WHERE later.queue_id = of_queue AND later.group_key = asked.group_key
                AND later.status IN ('held', 'arrived') AND (whole OR later.sequence > asked.sequence)
        ) AND NOT EXISTS (
            SELECT FROM {schema}.entries AS same
            WHERE same.queue_id = of_queue AND same.group_key = asked.group_key
                AND same.status IN ('held', 'arrived') AND same.sequence = asked.sequence
        ) AND NOT EXISTS (
            SELECT FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = asked.group_key AND known.next > asked.sequence
                AND NOT whole
        )
        FROM unnest(ids, group_keys, sequences) WITH ORDINALITY AS asked (message_id, group_key, sequence, place)
        ORDER BY place
    );
END
$function$;

-- Take a message in, within the caller's transaction: for triggers, procedures and other languages. It gets its ticket
-- when the transaction commits, and is then routed by whoever comes first. Answers with its id. A message whose id was
-- published before in the caller's id space is left out. docs/how-to/publish-from-sql.md describes it.
CREATE OR REPLACE FUNCTION {schema}.publish(
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
    space text := {schema}.id_space();
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
    INSERT INTO {schema}.message_ids (message_id, id_space) VALUES (id, space) ON CONFLICT DO NOTHING;
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
    INSERT INTO {schema}.spool (arrival_id, position, message_id, type, content_type, context, body, parts, id_space)
    VALUES (arrival, 0, id, type, content_type, context, body, nullif(cardinality(parts), 0), space);
    IF cardinality(parts) > 0 THEN
        INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
        SELECT arrival, 0, part.number, part.name, part.content_type, part.body
        FROM unnest(parts) WITH ORDINALITY AS part (name, content_type, body, number);
    END IF;
    RETURN id;
END
$function$;

-- A message that was for an instance which has ended meanwhile, and that no activation can take: set aside as dead. The
-- caller has the lock of its group, and has been handed it. `of_entry`: which one it is, for two of one id may be there.
DROP FUNCTION {schema}.set_stray_aside;
CREATE FUNCTION {schema}.set_stray_aside(
    of_queue integer, of_group text, of_message text, of_ordinal bigint, why text, of_entry bigint DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    WITH gone AS (
        DELETE FROM {schema}.entries AS entry USING {schema}.spool AS stored
        WHERE entry.queue_id = of_queue AND entry.group_key = of_group
            AND stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
            AND stored.message_id = of_message AND entry.entry_id = coalesce(of_entry, entry.entry_id)
        RETURNING entry.*
    )
    INSERT INTO {schema}.aside (
        entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
        subscription_ids, ordinal, late, attempt
    )
    SELECT
        entry_id, queue_id, group_key, 'dead', why, arrival_id, position, sequence, size, priority,
        subscription_ids, of_ordinal, late, attempt
    FROM gone;
END
$function$;

-- Who wants which messages, by name. `subscriber`: the role whose subscription it is, NULL: the owner's; `types`: what it
-- may match, then.
CREATE OR REPLACE VIEW {schema}.subscriptions AS
SELECT
    one.subscription,
    place.queue,
    one.state,
    one.definition ->> 'state' AS declared_state,
    one.definition ->> 'where' AS filter,
    pg_get_userbyid(one.subscriber::oid)::text AS subscriber,
    CASE WHEN one.subscriber IS NOT NULL THEN {schema}.types_of(one.subscriber) END AS types
FROM {schema}.known_subscriptions AS one JOIN {schema}.queues AS place USING (queue_id);

-- The messages that the box has, each with its ticket. Reads without locks.
CREATE OR REPLACE VIEW {schema}.messages AS
SELECT
    stored.message_id,
    stored.type,
    run.location,
    run.epoch + (run.number - 1 + stored.position) / place.last_number AS epoch,
    (run.number - 1 + stored.position) % place.last_number + 1 AS number,
    stored.content_type,
    stored.context,
    stored.body,
    stored.received_at,
    coalesce(stored.parts, 0) AS parts,
    stored.id_space
FROM {schema}.spool AS stored
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS place USING (location);

-- Where each message is: a row for each queue that has it, or had it and keeps it, or for nobody having wanted it.
-- `status`: arrived, held, queued, in_hand; late, duplicate, invalid, rejected, dead; done; unrouted. `since`: in that status,
-- as far as that is known. `waits`: only subscriptions that aren't started have collected it.
CREATE OR REPLACE VIEW {schema}.message_places AS
SELECT
    stored.message_id,
    stored.type,
    run.location,
    run.epoch + (run.number - 1 + place.position) / start.last_number AS epoch,
    (run.number - 1 + place.position) % start.last_number + 1 AS number,
    queue.queue,
    place.group_key,
    place.status,
    place.reason,
    place.sequence,
    place.ordinal,
    place.priority,
    place.attempt,
    place.visible_at,
    EXISTS (
        SELECT FROM {schema}.known_subscriptions AS one WHERE one.subscription_id = ANY (place.subscription_ids)
    ) AND NOT EXISTS (
        SELECT FROM {schema}.known_subscriptions AS one
        WHERE one.subscription_id = ANY (place.subscription_ids) AND one.state = 'started'
    ) AS waits,
    ARRAY(
        SELECT one.subscription::text FROM {schema}.known_subscriptions AS one
        WHERE one.subscription_id = ANY (place.subscription_ids) ORDER BY 1
    ) AS subscriptions,
    stored.received_at,
    place.since,
    length(stored.body) AS body_bytes,
    run.stamp,
    place.arrival_id,
    place.position,
    place.arrival,
    coalesce(stored.parts, 0) AS parts,
    stored.id_space
FROM (
    SELECT
        arrival_id, position, queue_id, group_key, status, NULL AS reason, sequence, ordinal, priority, attempt,
        visible_at, subscription_ids, arrival, NULL::timestamptz AS since
    FROM {schema}.entries
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, disposition, reason, sequence, ordinal, priority, attempt,
        NULL, subscription_ids, NULL, aside_at
    FROM {schema}.aside
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, 'done', NULL, sequence, ordinal, NULL, attempt,
        NULL, subscription_ids, NULL, done_at
    FROM {schema}.history
    UNION ALL
    SELECT
        arrival_id, position, NULL, NULL, 'unrouted', problem, NULL, NULL, NULL, 0, NULL, '{{}}'::integer[], NULL,
        unrouted_at
    FROM {schema}.unrouted
) AS place
JOIN {schema}.spool AS stored USING (arrival_id, position)
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS start USING (location)
LEFT JOIN {schema}.queues AS queue USING (queue_id);
