-- What a box knows as one of two regions: which one it is, the numbers of sessions that it knows and has voted for, and the messages that the
-- other box lacks. Only the owner of the box writes here. Nothing here says which numbers are over: that is in the journal.

-- Which region the box is, for each name. `incarnation`: its own, higher after each restore; `box_incarnation`: that of the box with which it
-- was made. `learned`: 2: it votes; 0: it was restored; 1: it has taken over the journal's numbers. `fence`: the incarnation of the other region
-- from which on its votes count.
CREATE TABLE {schema}.region_roles (
    name text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 128),
    region text NOT NULL CHECK (region IN ('a', 'b')),
    incarnation bigint NOT NULL CHECK (incarnation > 0),
    box_incarnation bigint NOT NULL,
    learned integer NOT NULL CHECK (learned BETWEEN 0 AND 2),
    fence bigint NOT NULL DEFAULT 0,
    defined_at timestamptz NOT NULL DEFAULT now()
);

-- The queues of regions: they decide nothing themselves.
CREATE TABLE {schema}.region_queues (
    queue_id integer PRIMARY KEY,
    name text NOT NULL REFERENCES {schema}.region_roles
);

-- `through`: the highest number that the box knows of a session. `over_through`: through which number all is over, as far as the box has heard.
CREATE TABLE {schema}.region_sessions (
    queue_id integer NOT NULL,
    session text COLLATE "C" NOT NULL,
    through bigint NOT NULL,
    over_through bigint,
    PRIMARY KEY (queue_id, session)
) WITH (fillfactor = 80);

-- The messages that the box has under their numbers. `voted`: the box has voted for it. `is_copy`: it came from the other box. `withdrawn`: its
-- sender has taken it back; the vote stays. `arrival_id`, `position`: where it is stored. `beside`: it has no entry in the queue, because another
-- message of this number has one; the journal says whose the number is.
CREATE TABLE {schema}.region_numbers (
    queue_id integer NOT NULL,
    session text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    message_id text NOT NULL,
    voted boolean NOT NULL,
    is_copy boolean NOT NULL,
    beside boolean NOT NULL DEFAULT FALSE,
    withdrawn boolean NOT NULL DEFAULT FALSE,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue_id, session, number, message_id)
);
CREATE INDEX region_numbers_of_message ON {schema}.region_numbers USING hash (message_id);
CREATE INDEX region_numbers_by_time ON {schema}.region_numbers USING brin (noted_at) WITH (pages_per_range = 32);

-- The messages that the other box lacks, as far as is known. A message that isn't stored any more is over.
CREATE TABLE {schema}.region_outbox (
    outbox_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    message_id text NOT NULL,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (name, message_id)
);

-- The role of the box under a name, with the box's incarnation as it is now; no row: it has none.
CREATE FUNCTION {schema}.region_role(
    of_name text, OUT region text, OUT incarnation bigint, OUT learned integer, OUT fence bigint, OUT is_restored boolean,
    OUT queue_ids integer[]
) RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT role.region, role.incarnation, role.learned, role.fence, role.box_incarnation <> own.incarnation,
        ARRAY(SELECT regional.queue_id FROM {schema}.region_queues AS regional WHERE regional.name = of_name ORDER BY 1)
    FROM {schema}.region_roles AS role CROSS JOIN {schema}.box_identity AS own
    WHERE role.name = of_name;
END;

-- Let the box be a region. `known`: the highest incarnation of this region that anybody has heard of, 0: none. A box that comes in place of a lost one
-- votes when it has taken over the numbers of the others.
CREATE FUNCTION {schema}.region_begin(of_name text, as_region text, known bigint) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    INSERT INTO {schema}.region_roles (name, region, incarnation, box_incarnation, learned)
    SELECT of_name, as_region, known + 1, own.incarnation, CASE known WHEN 0 THEN 2 ELSE 0 END FROM {schema}.box_identity AS own
    ON CONFLICT DO NOTHING;
END;

-- Queues of a name. Those that are others' already are returned.
CREATE FUNCTION {schema}.region_take_queues(of_name text, queues text[]) RETURNS SETOF text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    INSERT INTO {schema}.region_queues (queue_id, name)
    SELECT known.queue_id, of_name FROM {schema}.queues AS known WHERE known.queue = ANY (queues)
    ON CONFLICT DO NOTHING;
    RETURN QUERY SELECT known.queue FROM {schema}.queues AS known JOIN {schema}.region_queues AS regional USING (queue_id)
    WHERE known.queue = ANY (queues) AND regional.name <> of_name ORDER BY 1;
END
$function$;

-- Sessions under their locks, in one order for all; those that aren't known begin at `floors`. The arrays are sorted, without repetitions.
CREATE FUNCTION {schema}.region_lock(
    of_queues integer[], of_sessions text[], floors bigint[],
    OUT queue_id integer, OUT session text, OUT through bigint, OUT over_through bigint
) RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
#variable_conflict use_column
BEGIN
    INSERT INTO {schema}.region_sessions AS known (queue_id, session, through)
    SELECT given.queue_id, given.session, given.through
    FROM unnest(of_queues, of_sessions, floors) WITH ORDINALITY AS given (queue_id, session, through, nth) ORDER BY nth
    ON CONFLICT DO NOTHING;
    RETURN QUERY
        SELECT known.queue_id, known.session, known.through, known.over_through
        FROM unnest(of_queues, of_sessions) AS given (queue_id, session)
        JOIN {schema}.region_sessions AS known
            ON known.queue_id = ANY (ARRAY[given.queue_id]) AND known.session = ANY (ARRAY[given.session])
        ORDER BY known.queue_id, known.session
        FOR UPDATE OF known;
END
$function$;

-- The highest numbers of sessions, as they are now.
CREATE FUNCTION {schema}.region_through(
    of_queues integer[], of_sessions text[], OUT queue_id integer, OUT session text, OUT through bigint
) RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT known.queue_id, known.session, greatest(known.through, known.over_through)
        FROM unnest(of_queues, of_sessions) AS given (queue_id, session)
        JOIN {schema}.region_sessions AS known
            ON known.queue_id = ANY (ARRAY[given.queue_id]) AND known.session = ANY (ARRAY[given.session]);
END
$function$;

-- What the box has under some numbers, and under which numbers it has some messages.
CREATE FUNCTION {schema}.region_known(
    of_queues integer[], of_sessions text[], of_numbers bigint[], of_messages text[],
    OUT queue_id integer, OUT session text, OUT number bigint, OUT message_id text, OUT voted boolean, OUT beside boolean,
    OUT withdrawn boolean
) RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT known.queue_id, known.session, known.number, known.message_id, known.voted, known.beside, known.withdrawn
        FROM unnest(of_queues, of_sessions, of_numbers) AS given (queue_id, session, number)
        JOIN {schema}.region_numbers AS known
            ON known.queue_id = ANY (ARRAY[given.queue_id]) AND known.session = ANY (ARRAY[given.session])
            AND known.number = ANY (ARRAY[given.number])
        UNION
        SELECT known.queue_id, known.session, known.number, known.message_id, known.voted, known.beside, known.withdrawn
        FROM unnest(of_messages) AS given (message_id)
        JOIN {schema}.region_numbers AS known ON known.message_id = ANY (ARRAY[given.message_id]);
END
$function$;

-- Note what was taken in by this transaction: whose numbers they are here, that the other box lacks them, and how many microseconds from now on
-- they are handed out, NULL: at once. `numbered`: rows of `of_messages`, from 1, a row for each number.
CREATE FUNCTION {schema}.region_note(
    of_name text, of_messages text[], delays bigint[], is_copy boolean, numbered bigint[], of_queues integer[], of_sessions text[],
    of_numbers bigint[], votes boolean[], besides boolean[]
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    arrivals bigint[];
    positions bigint[];
BEGIN
    SELECT array_agg(stored.arrival_id ORDER BY given.nth), array_agg(stored.position ORDER BY given.nth) INTO arrivals, positions
    FROM unnest(of_messages) WITH ORDINALITY AS given (message_id, nth)
    LEFT JOIN (
        SELECT one.message_id, one.arrival_id, one.position
        FROM {schema}.arrivals AS mine JOIN {schema}.spool AS one ON one.arrival_id = ANY (ARRAY[mine.arrival_id])
        WHERE mine.transaction = pg_current_xact_id()
    ) AS stored USING (message_id);
    INSERT INTO {schema}.region_numbers (queue_id, session, number, message_id, voted, is_copy, beside, arrival_id, position)
    SELECT given.queue_id, given.session, given.number, of_messages[given.place], given.voted, region_note.is_copy, given.beside,
        arrivals[given.place], positions[given.place]
    FROM unnest(numbered, of_queues, of_sessions, of_numbers, votes, besides) AS given (place, queue_id, session, number, voted, beside);
    UPDATE {schema}.region_sessions AS known SET through = greatest(known.through, highest.number)
    FROM (
        SELECT given.queue_id, given.session, max(given.number) AS number
        FROM unnest(of_queues, of_sessions, of_numbers) AS given (queue_id, session, number) GROUP BY 1, 2
    ) AS highest
    WHERE known.queue_id = highest.queue_id AND known.session = highest.session;
    IF NOT is_copy THEN
        INSERT INTO {schema}.region_outbox (name, message_id, arrival_id, position)
        SELECT of_name, of_messages[place], arrivals[place], positions[place] FROM generate_subscripts(of_messages, 1) AS place
        ORDER BY place ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(array_remove(delays, NULL)) > 0 THEN
        UPDATE {schema}.entries AS entry SET visible_at = clock_timestamp() + given.delay * interval '1 microsecond'
        FROM unnest(arrivals, positions, delays) AS given (arrival_id, position, delay)
        WHERE given.delay IS NOT NULL AND entry.arrival_id = ANY (ARRAY[given.arrival_id]) AND entry.position = ANY (ARRAY[given.position]);
        UPDATE {schema}.spool AS stored SET visible_at = clock_timestamp() + given.delay * interval '1 microsecond'
        FROM unnest(arrivals, positions, delays) AS given (arrival_id, position, delay)
        WHERE given.delay IS NOT NULL AND stored.arrival_id = ANY (ARRAY[given.arrival_id]) AND stored.position = ANY (ARRAY[given.position]);
    END IF;
END
$function$;

-- The other box has these messages, or nobody needs them any more.
CREATE FUNCTION {schema}.region_strike(of_name text, of_messages text[]) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
BEGIN ATOMIC
    DELETE FROM {schema}.region_outbox AS one WHERE one.name = of_name AND one.message_id = ANY (of_messages);
END;

-- Messages that the journal has barred from their numbers. Their entries stay, under ids that are nobody's: whoever gets them hears from the journal
-- that the number is over, or another message's. So a sender may give such a message another number.
CREATE FUNCTION {schema}.region_withdraw(of_name text, of_messages text[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    DELETE FROM {schema}.region_outbox AS one WHERE one.name = of_name AND one.message_id = ANY (of_messages);
    UPDATE {schema}.spool AS stored SET message_id = left(stored.message_id, 900) || ' withdrawn ' || gen_random_uuid()
    FROM (
        SELECT DISTINCT one.arrival_id, one.position FROM {schema}.region_numbers AS one
        WHERE one.message_id = ANY (of_messages) AND NOT one.withdrawn
    ) AS mine
    WHERE stored.arrival_id = ANY (ARRAY[mine.arrival_id]) AND stored.position = ANY (ARRAY[mine.position]);
    UPDATE {schema}.region_numbers AS one SET withdrawn = TRUE WHERE one.message_id = ANY (of_messages) AND NOT one.withdrawn;
    DELETE FROM {schema}.message_ids AS known WHERE known.message_id = ANY (of_messages) AND known.id_space = '';
END
$function$;
