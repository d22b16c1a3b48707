-- Messages that were published in a transaction of an application, under numbers that the journal of two regions has reserved. After its commit somebody has the
-- numbers confirmed; until then the messages are in no queue, so that one whose reservation has ended may get another number.

-- `number`, `reservation`: what the journal keeps for it; a reservation that has ended is replaced by a later one.
CREATE TABLE {schema}.region_waiting (
    waiting_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    message_id text NOT NULL,
    queue_id integer NOT NULL,
    session text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    reservation text NOT NULL,
    type text NOT NULL,
    content_type text,
    context text NOT NULL,
    property_types jsonb,
    body bytea NOT NULL,
    part_names text[],
    part_content_types text[],
    part_bodies bytea[],
    published_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (name, message_id)
);

-- Which of some messages wait under a name, and the numbers that were reserved for them.
CREATE FUNCTION {schema}.region_waiting_numbers(of_name text, of_messages text[], OUT message_id text, OUT queue text, OUT session text, OUT number bigint)
RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT one.message_id, place.queue, one.session, one.number
        FROM {schema}.region_waiting AS one JOIN {schema}.queues AS place USING (queue_id)
        WHERE one.name = of_name AND one.message_id = ANY (of_messages);
END
$function$;

-- Keep messages until their numbers are confirmed. `part_places`: for each part its message, from 1. Answers with the ids of those that wait already.
CREATE FUNCTION {schema}.region_wait(
    of_name text, message_ids text[], of_queues integer[], of_sessions text[], of_numbers bigint[], reservations text[], types text[],
    content_types text[], contexts text[], property_types text[], bodies bytea[], part_places bigint[], part_names text[],
    part_content_types text[], part_bodies bytea[]
) RETURNS text[]
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    kept text[];
BEGIN
    WITH fresh AS (
        INSERT INTO {schema}.region_waiting (
            name, message_id, queue_id, session, number, reservation, type, content_type, context, property_types, body, part_names,
            part_content_types, part_bodies
        )
        SELECT of_name, given.message_id, given.queue_id, given.session, given.number, given.reservation, given.type, given.content_type,
            given.context, given.property_types::jsonb, given.body, parts.names, parts.content_types, parts.bodies
        FROM unnest(
            message_ids, of_queues, of_sessions, of_numbers, reservations, types, content_types, contexts, property_types, bodies
        ) WITH ORDINALITY AS given (
            message_id, queue_id, session, number, reservation, type, content_type, context, property_types, body, nth
        )
        LEFT JOIN LATERAL (
            SELECT array_agg(part.name ORDER BY part.nth) AS names, array_agg(part.content_type ORDER BY part.nth) AS content_types,
                array_agg(part.body ORDER BY part.nth) AS bodies
            FROM unnest(part_places, part_names, part_content_types, part_bodies)
                WITH ORDINALITY AS part (place, name, content_type, body, nth)
            WHERE part.place = given.nth
        ) AS parts ON TRUE
        ORDER BY given.nth
        ON CONFLICT DO NOTHING
        RETURNING message_id
    )
    SELECT coalesce(array_agg(fresh.message_id), '{{}}') INTO kept FROM fresh;
    RETURN ARRAY(SELECT one FROM unnest(message_ids) AS one WHERE one <> ALL (kept));
END
$function$;

-- The next messages that wait, about 32 MiB at most, as `region_outgoing` reads an outbox. `age`: microseconds since they were published.
CREATE FUNCTION {schema}.region_all_waiting(
    of_name text, behind bigint, at_most integer,
    OUT waiting_id bigint, OUT message_id text, OUT queue text, OUT session text, OUT number bigint, OUT reservation text, OUT type text,
    OUT content_type text, OUT context text, OUT property_types jsonb, OUT body bytea, OUT part_names text[], OUT part_content_types text[],
    OUT part_bodies bytea[], OUT age bigint
) RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT one.waiting_id, one.message_id, place.queue, one.session, one.number, one.reservation, one.type, one.content_type, one.context,
            one.property_types, one.body, one.part_names, one.part_content_types, one.part_bodies,
            greatest((extract(epoch FROM clock_timestamp() - one.published_at) * 1000000)::bigint, 0)
        FROM (
            SELECT mine.*, sum(octet_length(mine.body)) OVER (ORDER BY mine.waiting_id) - octet_length(mine.body) AS before
            FROM (
                SELECT every.* FROM {schema}.region_waiting AS every WHERE every.name = of_name AND every.waiting_id > behind
                ORDER BY every.waiting_id LIMIT at_most
            ) AS mine
        ) AS one
        JOIN {schema}.queues AS place USING (queue_id)
        WHERE one.before < 33554432
        ORDER BY one.waiting_id;
END
$function$;

-- The reservations of messages have ended, and the journal keeps other numbers for them. What somebody else has changed since stays as it is.
CREATE FUNCTION {schema}.region_wait_anew(of_messages bigint[], of_numbers bigint[], new_numbers bigint[], reservations text[]) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    changed bigint;
BEGIN
    UPDATE {schema}.region_waiting AS one SET number = given.new_number, reservation = given.reservation
    FROM unnest(of_messages, of_numbers, new_numbers, reservations) AS given (waiting_id, number, new_number, reservation)
    WHERE one.waiting_id = given.waiting_id AND one.number = given.number;
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END
$function$;

-- The numbers of messages are confirmed, and the caller takes them in, in this transaction. Answers with those that are the caller's: somebody else
-- may have taken them in.
CREATE FUNCTION {schema}.region_waited(of_messages bigint[], of_numbers bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    RETURN QUERY
        DELETE FROM {schema}.region_waiting AS one
        USING unnest(of_messages, of_numbers) AS given (waiting_id, number)
        WHERE one.waiting_id = given.waiting_id AND one.number = given.number
        RETURNING one.waiting_id;
END
$function$;

-- What waits for its confirmation is still to come: the other box lacks it, too.
CREATE OR REPLACE FUNCTION {schema}.region_ages(
    of_name text, OUT outbox bigint, OUT outbox_age bigint, OUT queue_age bigint, OUT beside bigint
) RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    moment timestamptz := clock_timestamp();
    begun timestamptz := (
        SELECT min(one.xact_start) FROM pg_stat_activity AS one
        WHERE one.datname = current_database() AND one.backend_xid IS NOT NULL AND one.pid <> pg_backend_pid()
    );
    oldest timestamptz;
    waiting timestamptz;
    more bigint;
BEGIN
    SELECT count(*), min(one.published_at) INTO outbox, oldest FROM {schema}.region_outbox AS one WHERE one.name = of_name;
    SELECT count(*), min(one.published_at) INTO more, waiting FROM {schema}.region_waiting AS one WHERE one.name = of_name;
    outbox := outbox + more;
    outbox_age := greatest((extract(epoch FROM moment - least(oldest, waiting, begun)) * 1000000)::bigint, 0);
    SELECT least(min(its.published_at), min(stored.received_at)) INTO oldest
    FROM {schema}.region_queues AS regional
    JOIN {schema}.entries AS entry USING (queue_id)
    LEFT JOIN {schema}.region_numbers AS its ON its.arrival_id = entry.arrival_id AND its.position = entry.position
    LEFT JOIN {schema}.spool AS stored
        ON its.arrival_id IS NULL AND stored.arrival_id = entry.arrival_id AND stored.position = entry.position
    WHERE regional.name = of_name;
    SELECT count(*), least(oldest, min(its.published_at)) INTO beside, oldest
    FROM {schema}.region_queues AS regional JOIN {schema}.region_numbers AS its USING (queue_id)
    WHERE regional.name = of_name AND its.beside;
    queue_age := greatest((extract(epoch FROM moment - least(oldest, waiting, begun)) * 1000000)::bigint, 0);
    outbox_age := coalesce(outbox_age, 0);
    queue_age := coalesce(queue_age, 0);
    RETURN NEXT;
END
$function$;

-- What is known of a queue goes with it.
CREATE OR REPLACE FUNCTION {schema}.drop_region_queue() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    DELETE FROM {schema}.region_queues WHERE queue_id = OLD.queue_id;
    IF FOUND THEN
        DELETE FROM {schema}.region_numbers WHERE queue_id = OLD.queue_id;
        DELETE FROM {schema}.region_sessions WHERE queue_id = OLD.queue_id;
        DELETE FROM {schema}.region_waiting WHERE queue_id = OLD.queue_id;
    END IF;
    RETURN NULL;
END
$function$;
