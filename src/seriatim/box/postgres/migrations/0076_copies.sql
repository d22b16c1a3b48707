-- Copies of messages of two regions: which of them are over, the journal decides; a worker of the region has them in leases.

-- What the box knows of messages, each in the order in which they are given: through which number its session is over, as far as the box has heard
-- (NULL: it has heard nothing), and how long ago it was published in the first of both boxes, microseconds.
CREATE FUNCTION {schema}.copies_known(of_queue integer, of_groups text[], of_numbers bigint[], of_messages text[])
RETURNS TABLE (place bigint, through bigint, age bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        asked.place, session.over_through,
        greatest((extract(epoch FROM clock_timestamp() - known.published_at) * 1000000)::bigint, 0)
    FROM unnest(of_groups, of_numbers, of_messages) WITH ORDINALITY AS asked (group_key, number, message_id, place)
    LEFT JOIN {schema}.region_sessions AS session ON session.queue_id = of_queue AND session.session = asked.group_key
    LEFT JOIN {schema}.region_numbers AS known
        ON known.queue_id = of_queue AND known.session = asked.group_key AND known.number = asked.number
        AND known.message_id = asked.message_id
    ORDER BY asked.place;
END
$function$;

-- Note it; it never goes back. A session that the box doesn't know yet is known up to there.
CREATE FUNCTION {schema}.note_over(of_queue integer, of_groups text[], throughs bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    INSERT INTO {schema}.region_sessions AS known (queue_id, session, through, over_through)
    SELECT of_queue, told.group_key, max(told.through), max(told.through)
    FROM unnest(of_groups, throughs) AS told (group_key, through)
    WHERE told.through IS NOT NULL
    GROUP BY told.group_key
    ORDER BY told.group_key
    ON CONFLICT (queue_id, session) DO UPDATE SET
        through = greatest(known.through, excluded.through), over_through = excluded.over_through
    WHERE known.over_through IS NULL OR known.over_through < excluded.over_through;
END
$function$;

-- End leases of copies: the first `dones` of each are completed, and the others are free again, after a delay (microseconds) where one is given.
-- Answers with the leases that were there. One that isn't has run out; its copies are handed out again, and found to be over.
CREATE FUNCTION {schema}.end_copies(of_queue integer, tokens bigint[], dones integer[], delays bigint[], keep text) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    one record;
    done record;
    ended bigint[] := '{{}}';
    in_time boolean;
    frees bigint := 0;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    FOR one IN
        SELECT told.*, lease.group_key, lease.entry_ids
        FROM unnest(tokens, dones, delays) AS told (token, done, delay)
        JOIN {schema}.leases AS lease ON lease.token = told.token AND lease.queue_id = of_queue
        ORDER BY lease.group_key
    LOOP
        IF one.done > 0 THEN
            in_time := {schema}.settle_lease(of_queue, one.token, one.done, TRUE);
        ELSE
            in_time := {schema}.drop_lease(of_queue, one.token, FALSE, 10000);
        END IF;
        CONTINUE WHEN NOT in_time;
        ended := ended || one.token;
        IF one.done > 0 THEN
            SELECT
                array_agg(entry.entry_id ORDER BY entry.ordinal) AS ids, array_agg(entry.ordinal ORDER BY entry.ordinal) AS ordinals,
                array_agg(entry.late ORDER BY entry.ordinal) AS lates
            INTO done
            FROM {schema}.entries AS entry
            WHERE entry.entry_id = ANY (one.entry_ids[:one.done]) AND entry.queue_id = of_queue AND entry.status = 'queued';
            IF done.ids IS NOT NULL THEN
                PERFORM {schema}.complete(of_queue, done.ids, done.ordinals, done.lates, (
                    SELECT known.incarnation FROM {schema}.known_groups AS known
                    WHERE known.queue_id = of_queue AND known.group_key = one.group_key
                ), keep);
            END IF;
        END IF;
        IF one.done < cardinality(one.entry_ids) THEN
            IF one.delay > 0 THEN
                PERFORM {schema}.postpone(
                    of_queue, one.group_key, one.entry_ids[one.done + 1:one.done + 1], make_interval(secs => one.delay / 1000000.0)
                );
            ELSE
                frees := frees + 1;
            END IF;
        END IF;
    END LOOP;
    IF frees > 0 THEN
        PERFORM {schema}.call_waiters(ARRAY[of_queue], frees);
    END IF;
    RETURN ended;
END
$function$;

-- Groups that wait for a number that isn't there, with nothing before it left to do, in the order of their keys: their next number, and the
-- message with the lowest number behind the hole. `digest`: as the journal has it, the SHA-256 of type, content type and body.
CREATE FUNCTION {schema}.copies_behind_holes(of_queue integer, after_group text, how_many integer)
RETURNS TABLE (group_key text, next bigint, number bigint, message_id text, digest bytea, age bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        known.group_key, known.next, held.sequence, stored.message_id, sha256(
            int8send(octet_length(convert_to(stored.type, 'UTF8'))) || convert_to(stored.type, 'UTF8')
            || CASE WHEN stored.content_type IS NULL THEN int8send(0)
                ELSE int8send(octet_length(convert_to(stored.content_type, 'UTF8')) + 1) || '\x01'::bytea
                    || convert_to(stored.content_type, 'UTF8') END
            || stored.body
        ),
        greatest(0, (extract(epoch FROM clock_timestamp() - coalesce((
            SELECT one.published_at FROM {schema}.region_numbers AS one
            WHERE one.queue_id = of_queue AND one.session = known.group_key AND one.number = held.sequence
                AND one.message_id = stored.message_id
        ), stored.received_at)) * 1000000)::bigint)
    FROM (
        SELECT one.group_key, one.next
        FROM {schema}.known_groups AS one
        WHERE one.queue_id = of_queue AND one.group_key > after_group
            AND (one.flags & 24 <> 0 OR one.since <> -4611686018427387904)
            AND one.flags & 24 = 0 AND one.since <> -4611686018427387904
            AND NOT EXISTS (
                SELECT FROM {schema}.entries AS before
                WHERE before.queue_id = of_queue AND before.group_key = one.group_key AND before.status IN ('queued', 'faulted')
            )
            AND NOT EXISTS (
                SELECT FROM {schema}.leases AS lease WHERE lease.queue_id = of_queue AND lease.group_key = one.group_key
            )
        ORDER BY one.group_key
        LIMIT how_many
    ) AS known
    CROSS JOIN LATERAL (
        SELECT entry.sequence, entry.arrival_id, entry.position
        FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.group_key = known.group_key AND entry.status = 'held' AND entry.sequence >= known.next
        ORDER BY entry.sequence
        LIMIT 1
    ) AS held
    JOIN {schema}.spool AS stored ON stored.arrival_id = held.arrival_id AND stored.position = held.position
    ORDER BY known.group_key;
END
$function$;

-- Lock groups of which a worker has heard that numbers are over elsewhere. What somebody is at work on is left out: its turn comes again.
CREATE FUNCTION {schema}.lock_copies(
    of_queue integer, of_groups text[], at_us bigint,
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    one text;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    group_keys := '{{}}';
    FOREACH one IN ARRAY of_groups LOOP
        IF pg_try_advisory_xact_lock({schema}.group_lock(of_queue, one)) AND NOT {schema}.is_leased(of_queue, one) THEN
            group_keys := group_keys || one;
        END IF;
    END LOOP;
    now_us := coalesce(at_us, {schema}.now_us());
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
END
$function$;

-- After that its messages may be handed out, and nobody who waits was called.
CREATE FUNCTION {schema}.call_for_copies(of_queue integer, how_many bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    PERFORM {schema}.call_waiters(ARRAY[of_queue], how_many);
END
$function$;
