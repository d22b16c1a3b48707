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
-- sender has taken it back; the vote stays. `published_at`: when it was published, also of a copy, by the clock of this box. `arrival_id`, `position`: where it is stored. `beside`: it has no entry in the queue, because another
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
    published_at timestamptz NOT NULL,
    PRIMARY KEY (queue_id, session, number, message_id)
);
CREATE INDEX region_numbers_of_place ON {schema}.region_numbers (arrival_id, position);
CREATE INDEX region_numbers_of_message ON {schema}.region_numbers USING hash (message_id);
CREATE INDEX region_numbers_by_time ON {schema}.region_numbers USING brin (published_at) WITH (pages_per_range = 32);

-- The messages that the other box lacks, as far as is known. A message that isn't stored any more is over.
CREATE TABLE {schema}.region_outbox (
    outbox_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    message_id text NOT NULL,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    published_at timestamptz NOT NULL,
    UNIQUE (name, message_id)
);

-- What is known of a queue goes with it.
CREATE FUNCTION {schema}.drop_region_queue() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    DELETE FROM {schema}.region_queues WHERE queue_id = OLD.queue_id;
    IF FOUND THEN
        DELETE FROM {schema}.region_numbers WHERE queue_id = OLD.queue_id;
        DELETE FROM {schema}.region_sessions WHERE queue_id = OLD.queue_id;
    END IF;
    RETURN NULL;
END
$function$;
CREATE TRIGGER drop_region_queue AFTER DELETE ON {schema}.queues
FOR EACH ROW EXECUTE FUNCTION {schema}.drop_region_queue();
ALTER TABLE {schema}.queues ENABLE ALWAYS TRIGGER drop_region_queue;

-- The regions that a queue belongs to; NULL: to none. For those who operate on it.
CREATE FUNCTION {schema}.region_of_queue(of_queue integer) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    RETURN (SELECT regional.name FROM {schema}.region_queues AS regional WHERE regional.queue_id = of_queue);
END
$function$;

-- The names of all queues of regions.
CREATE FUNCTION {schema}.region_queue_names() RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
RETURN ARRAY(SELECT known.queue FROM {schema}.region_queues AS regional JOIN {schema}.queues AS known USING (queue_id));

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

-- Queues of a name. Returned are those that can't be: others', or such that had messages before, of whose numbers nothing is known.
CREATE FUNCTION {schema}.region_take_queues(of_name text, queues text[], OUT queue text, OUT why text) RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    INSERT INTO {schema}.region_queues (queue_id, name)
    SELECT known.queue_id, of_name FROM {schema}.queues AS known
    WHERE known.queue = ANY (queues) AND NOT EXISTS (
        SELECT FROM {schema}.known_groups AS one WHERE one.queue_id = known.queue_id
    ) AND NOT EXISTS (
        SELECT FROM {schema}.entries AS one WHERE one.queue_id = known.queue_id
    )
    ON CONFLICT DO NOTHING;
    RETURN QUERY
        SELECT known.queue, CASE WHEN regional.name IS NULL THEN 'used' ELSE 'others' END
        FROM {schema}.queues AS known LEFT JOIN {schema}.region_queues AS regional USING (queue_id)
        WHERE known.queue = ANY (queues) AND regional.name IS DISTINCT FROM of_name ORDER BY 1;
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
    of_name text, of_messages text[], ages bigint[], delays bigint[], is_copy boolean, numbered bigint[], of_queues integer[], of_sessions text[],
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
    INSERT INTO {schema}.region_numbers (queue_id, session, number, message_id, voted, is_copy, beside, arrival_id, position, published_at)
    SELECT given.queue_id, given.session, given.number, of_messages[given.place], given.voted, region_note.is_copy, given.beside,
        arrivals[given.place], positions[given.place], now() - ages[given.place] * interval '1 microsecond'
    FROM unnest(numbered, of_queues, of_sessions, of_numbers, votes, besides) AS given (place, queue_id, session, number, voted, beside);
    UPDATE {schema}.region_sessions AS known SET through = greatest(known.through, highest.number)
    FROM (
        SELECT given.queue_id, given.session, max(given.number) AS number
        FROM unnest(of_queues, of_sessions, of_numbers) AS given (queue_id, session, number) GROUP BY 1, 2
    ) AS highest
    WHERE known.queue_id = highest.queue_id AND known.session = highest.session;
    IF NOT is_copy THEN
        INSERT INTO {schema}.region_outbox (name, message_id, arrival_id, position, published_at)
        SELECT of_name, of_messages[place], arrivals[place], positions[place], now() - ages[place] * interval '1 microsecond' FROM generate_subscripts(of_messages, 1) AS place
        ORDER BY place ON CONFLICT DO NOTHING;
    END IF;
    IF is_copy THEN
        -- A copy was published when its original was. By this time, which is kept with its id, a message is found.
        UPDATE {schema}.spool AS stored SET received_at = now() - given.age * interval '1 microsecond'
        FROM unnest(arrivals, positions, ages) AS given (arrival_id, position, age)
        WHERE stored.arrival_id = ANY (ARRAY[given.arrival_id]) AND stored.position = ANY (ARRAY[given.position]);
        UPDATE {schema}.message_ids AS known SET published_at = now() - given.age * interval '1 microsecond'
        FROM unnest(of_messages, ages) AS given (message_id, age)
        WHERE known.message_id = given.message_id AND known.id_space = '';
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

-- The other box has these messages, or nobody needs them any more. The disk isn't waited for: one that comes back is struck off once more.
CREATE FUNCTION {schema}.region_strike(of_name text, of_messages text[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.commit_early();
    DELETE FROM {schema}.region_outbox AS one WHERE one.name = of_name AND one.message_id = ANY (of_messages);
END
$function$;

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

-- The next messages that the other box lacks, with their numbers here, about 32 MiB at most; `type` is NULL if one isn't stored any more.
CREATE FUNCTION {schema}.region_outgoing(
    of_name text, behind bigint, at_most integer,
    OUT outbox_id bigint, OUT message_id text, OUT arrival_id bigint, OUT "position" bigint, OUT type text, OUT content_type text,
    OUT context text, OUT property_types jsonb, OUT body bytea, OUT parts bigint, OUT age bigint, OUT queues text[], OUT sessions text[],
    OUT numbers bigint[]
) RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT one.outbox_id, one.message_id, one.arrival_id, one.position, stored.type, stored.content_type, stored.context::text,
            stored.property_types, stored.body, stored.parts::bigint,
            greatest((extract(epoch FROM clock_timestamp() - one.published_at) * 1000000)::bigint, 0),
            numbered.queues, numbered.sessions, numbered.numbers
        FROM (
            SELECT mine.*, sum(octet_length(had.body)) OVER (ORDER BY mine.outbox_id) - octet_length(had.body) AS before
            FROM (
                SELECT every.* FROM {schema}.region_outbox AS every WHERE every.name = of_name AND every.outbox_id > behind
                ORDER BY every.outbox_id LIMIT at_most
            ) AS mine
            LEFT JOIN {schema}.spool AS had
                ON had.arrival_id = ANY (ARRAY[mine.arrival_id]) AND had.position = ANY (ARRAY[mine.position])
        ) AS one
        LEFT JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[one.arrival_id]) AND stored.position = ANY (ARRAY[one.position])
        LEFT JOIN LATERAL (
            SELECT array_agg(known.queue ORDER BY known.queue, its.number) AS queues,
                array_agg(its.session ORDER BY known.queue, its.number) AS sessions,
                array_agg(its.number ORDER BY known.queue, its.number) AS numbers
            FROM {schema}.region_numbers AS its JOIN {schema}.queues AS known USING (queue_id)
            WHERE its.arrival_id = ANY (ARRAY[one.arrival_id]) AND its.position = ANY (ARRAY[one.position]) AND NOT its.withdrawn
        ) AS numbered ON TRUE
        WHERE coalesce(one.before, 0) < 33554432
        ORDER BY one.outbox_id;
END
$function$;

-- The parts of messages, in order.
CREATE FUNCTION {schema}.region_parts(
    of_arrivals bigint[], of_positions bigint[],
    OUT arrival_id bigint, OUT "position" bigint, OUT name text, OUT content_type text, OUT body bytea
) RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT part.arrival_id, part.position, part.name, part.content_type, part.body
        FROM unnest(of_arrivals, of_positions) AS given (arrival_id, "position")
        JOIN {schema}.message_parts AS part
            ON part.arrival_id = ANY (ARRAY[given.arrival_id]) AND part.position = ANY (ARRAY[given.position])
        ORDER BY part.arrival_id, part.position, part.number;
END
$function$;

-- How old the oldest message is in the outbox and in the queues of a name, in microseconds, 0: there is none. A transaction that is open may
-- still bring one that is as old as itself.
CREATE FUNCTION {schema}.region_ages(
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
BEGIN
    SELECT count(*), min(one.published_at) INTO outbox, oldest FROM {schema}.region_outbox AS one WHERE one.name = of_name;
    outbox_age := greatest((extract(epoch FROM moment - least(oldest, begun)) * 1000000)::bigint, 0);
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
    queue_age := greatest((extract(epoch FROM moment - least(oldest, begun)) * 1000000)::bigint, 0);
    outbox_age := coalesce(outbox_age, 0);
    queue_age := coalesce(queue_age, 0);
    RETURN NEXT;
END
$function$;

-- The box was restored: it begins a new incarnation, and doesn't vote before it has learned. `known`: the highest that anybody has heard of.
CREATE FUNCTION {schema}.region_restored(of_name text, known bigint) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    UPDATE {schema}.region_roles AS role
    SET incarnation = greatest(role.incarnation, known) + 1, box_incarnation = own.incarnation, learned = 0
    FROM {schema}.box_identity AS own
    WHERE role.name = of_name AND role.box_incarnation <> own.incarnation;
END;

-- The other region begins an incarnation: votes of an earlier one count no more.
CREATE FUNCTION {schema}.region_fence(of_name text, incarnation bigint) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    UPDATE {schema}.region_roles AS role SET fence = greatest(role.fence, region_fence.incarnation) WHERE role.name = of_name;
END;

-- Take over what another party knows of sessions.
CREATE FUNCTION {schema}.region_take_over(of_name text, queues text[], of_sessions text[], throughs bigint[], overs bigint[]) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    INSERT INTO {schema}.region_sessions AS known (queue_id, session, through, over_through)
    SELECT place.queue_id, given.session, given.through, given.over_through
    FROM unnest(queues, of_sessions, throughs, overs) AS given (queue, session, through, over_through)
    JOIN {schema}.queues AS place ON place.queue = given.queue
    JOIN {schema}.region_queues AS regional ON regional.queue_id = place.queue_id AND regional.name = of_name
    ORDER BY place.queue_id, given.session COLLATE "C"
    ON CONFLICT (queue_id, session) DO UPDATE SET
        through = greatest(known.through, excluded.through), over_through = greatest(known.over_through, excluded.over_through);
END;

-- The box has learned from one party more; it has voted for none of the numbers that it took over. FALSE: it was restored once more meanwhile.
CREATE FUNCTION {schema}.region_learned(of_name text, at_incarnation bigint, step integer) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    UPDATE {schema}.region_roles AS role SET learned = step
    WHERE role.name = of_name AND role.incarnation = at_incarnation AND role.learned = step - 1;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    UPDATE {schema}.region_numbers AS one SET voted = FALSE FROM {schema}.region_queues AS regional
    WHERE regional.queue_id = one.queue_id AND regional.name = of_name AND one.voted;
    RETURN TRUE;
END
$function$;

-- What the box knows of its sessions, in their order, behind one of them.
CREATE FUNCTION {schema}.region_all_sessions(
    of_name text, behind_queue text, behind_session text, at_most integer,
    OUT queue text, OUT session text, OUT through bigint, OUT over_through bigint
) RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT place.queue, known.session, known.through, known.over_through
    FROM {schema}.region_queues AS regional
    JOIN {schema}.queues AS place USING (queue_id)
    JOIN {schema}.region_sessions AS known USING (queue_id)
    WHERE regional.name = of_name AND (place.queue COLLATE "C", known.session) > (behind_queue COLLATE "C", behind_session COLLATE "C")
    ORDER BY place.queue COLLATE "C", known.session LIMIT at_most;
END;

-- The messages that lie beside their queues, because another one has their number.
CREATE FUNCTION {schema}.region_besides(
    of_name text, at_most integer, OUT queue text, OUT queue_id integer, OUT session text, OUT number bigint, OUT message_id text
) RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT place.queue, place.queue_id, one.session, one.number, one.message_id
    FROM {schema}.region_queues AS regional
    JOIN {schema}.queues AS place USING (queue_id)
    JOIN {schema}.region_numbers AS one USING (queue_id)
    WHERE regional.name = of_name AND one.beside AND NOT one.withdrawn
    ORDER BY one.published_at, one.message_id LIMIT at_most;
END;

-- Of several messages under one number, let this one, which lies beside the queue, take the place of the one that has an entry, or was set aside.
-- The caller has the group. Answers with the entry, if it is one that was set aside and has to be put back; 0: it needs nothing more; NULL: there is no
-- such message beside, or the other one is handed out now, or done.
CREATE FUNCTION {schema}.region_exchange(of_queue integer, of_session text, of_number bigint, of_message text) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    present record;
    better record;
BEGIN
    SELECT one.* INTO better FROM {schema}.region_numbers AS one
    WHERE one.queue_id = of_queue AND one.session = of_session AND one.number = of_number AND one.message_id = of_message AND one.beside
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT entry.entry_id, entry.arrival_id, entry.position, FALSE AS is_aside INTO present FROM {schema}.entries AS entry
    WHERE entry.queue_id = of_queue AND entry.group_key = of_session AND entry.sequence = of_number AND entry.status <> 'in_hand'
    ORDER BY entry.entry_id LIMIT 1 FOR UPDATE;
    IF FOUND THEN
        UPDATE {schema}.entries AS entry SET arrival_id = better.arrival_id, position = better.position, attempt = 0, size = NULL
        WHERE entry.entry_id = present.entry_id;
    ELSE
        SELECT gone.entry_id, gone.arrival_id, gone.position, TRUE AS is_aside INTO present FROM {schema}.aside AS gone
        WHERE gone.queue_id = of_queue AND gone.group_key = of_session AND gone.sequence = of_number AND gone.disposition = 'dead'
        ORDER BY gone.entry_id LIMIT 1 FOR UPDATE;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        UPDATE {schema}.aside AS gone SET arrival_id = better.arrival_id, position = better.position, attempt = 0, size = NULL
        WHERE gone.entry_id = present.entry_id;
    END IF;
    UPDATE {schema}.region_numbers AS one SET beside = one.message_id <> of_message
    WHERE one.queue_id = of_queue AND one.session = of_session AND one.number = of_number
        AND (one.message_id = of_message OR one.arrival_id = present.arrival_id AND one.position = present.position);
    RETURN CASE WHEN present.is_aside THEN present.entry_id ELSE 0 END;
END
$function$;

-- The number is over: a message that lies beside the queue was another one's rival, and is set aside as a duplicate that conflicts. The caller has the
-- group. FALSE: there is no such message.
CREATE FUNCTION {schema}.region_lose(of_queue integer, of_session text, of_number bigint, of_message text, why text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    gone record;
BEGIN
    UPDATE {schema}.region_numbers AS one SET beside = FALSE
    WHERE one.queue_id = of_queue AND one.session = of_session AND one.number = of_number AND one.message_id = of_message AND one.beside
    RETURNING one.arrival_id, one.position INTO gone;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    INSERT INTO {schema}.aside (
        entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, priority, subscription_ids
    ) VALUES (
        nextval('{schema}.entry_ids'), of_queue, of_session, 'duplicate', why, gone.arrival_id, gone.position, of_number, 5, '{{}}'
    );
    UPDATE {schema}.known_groups AS known SET arrivals = known.arrivals + 1, decided[4] = known.decided[4] + 1
    WHERE known.queue_id = of_queue AND known.group_key = of_session;
    RETURN TRUE;
END
$function$;
