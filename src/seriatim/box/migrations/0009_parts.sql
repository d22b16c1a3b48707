-- Parts of messages, beside their bodies; how many messages a queue may have.

-- How many parts it has; NULL: none.
ALTER TABLE {schema}.spool ADD COLUMN parts integer CHECK (parts > 0);

-- What messages consist of beside their bodies.
CREATE TABLE {schema}.message_parts (
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    number bigint NOT NULL,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 256),
    content_type text,
    body bytea NOT NULL,
    PRIMARY KEY (arrival_id, position, number)
);

-- Parts go with their message, whoever deletes it. Messages without parts pay nothing for that.
CREATE FUNCTION {schema}.drop_message_parts() RETURNS trigger
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
BEGIN
    DELETE FROM {schema}.message_parts WHERE arrival_id = OLD.arrival_id AND position = OLD.position;
    RETURN NULL;
END
$function$;

CREATE TRIGGER drop_message_parts AFTER DELETE ON {schema}.spool
FOR EACH ROW WHEN (OLD.parts IS NOT NULL) EXECUTE FUNCTION {schema}.drop_message_parts();

-- The parts of the messages of some entries.
CREATE FUNCTION {schema}.parts_of(of_queue integer, of_entries bigint[])
RETURNS TABLE (entry_id bigint, name text, content_type text, body bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    RETURN QUERY
    SELECT entry.entry_id, part.name, part.content_type, part.body
    FROM {schema}.entries AS entry JOIN {schema}.message_parts AS part USING (arrival_id, position)
    WHERE entry.queue_id = of_queue AND entry.entry_id = ANY (of_entries)
    ORDER BY entry.entry_id, part.number;
END
$function$;

-- How many more messages each of some queues may take, where `mosts` says how many it may have. Reads so many entries
-- of an index.
CREATE FUNCTION {schema}.room_in(of_queues integer[], mosts bigint[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', of_queues);
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
-- (`whole`: anything of their set) is there and waits for them; and those that were published before, which add nothing.
CREATE FUNCTION {schema}.waited_for(
    of_queue integer, whole boolean, ids text[], group_keys text[], sequences bigint[]
) RETURNS boolean[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[of_queue]);
    RETURN ARRAY(
        SELECT EXISTS (
            SELECT FROM {schema}.message_ids AS known WHERE known.message_id = asked.message_id
        ) OR EXISTS (
            SELECT FROM {schema}.entries AS later
            WHERE later.queue_id = of_queue AND later.group_key = asked.group_key
                AND later.status IN ('held', 'arrived') AND (whole OR later.sequence > asked.sequence)
        ) AND NOT EXISTS (
            SELECT FROM {schema}.groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = asked.group_key AND known.next > asked.sequence
                AND NOT whole
        )
        FROM unnest(ids, group_keys, sequences) WITH ORDINALITY AS asked (message_id, group_key, sequence, place)
        ORDER BY place
    );
END
$function$;

-- What the dispenser of each location gives next; how many of its messages are in queues (`in_queue`); and through which
-- ticket none is any more: `last_sent` of `last_sent_epoch`, NULL before the first. That is computed from the entries, so
-- that whoever delivers moves both, in his transaction, without a row that all would have to lock.
CREATE OR REPLACE VIEW {schema}.dispensers AS
SELECT
    place.location,
    coalesce(newest.epoch + newest.taken / place.last_number, 0) AS epoch,
    coalesce(newest.taken % place.last_number + 1, 1) AS next_number,
    place.last_number,
    CASE WHEN mark.sent >= 0 THEN div(mark.sent, place.last_number)::bigint END AS last_sent_epoch,
    CASE WHEN mark.sent >= 0 THEN (mark.sent % place.last_number + 1)::bigint END AS last_sent,
    coalesce(waiting.messages, 0) AS in_queue
FROM {schema}.locations AS place
LEFT JOIN LATERAL (
    SELECT run.epoch, run.number - 1 + run.count AS taken
    FROM {schema}.tickets AS run WHERE run.location = place.location
    ORDER BY run.epoch DESC, run.number DESC LIMIT 1
) AS newest ON TRUE
LEFT JOIN (
    SELECT
        run.location,
        count(DISTINCT (message.arrival_id, message.position)) AS messages,
        min(run.epoch::numeric * start.last_number + run.number - 1 + message.position) AS oldest
    FROM (
        SELECT arrival_id, position FROM {schema}.entries
        UNION ALL
        SELECT arrival_id, position FROM {schema}.to_route
    ) AS message
    JOIN {schema}.tickets AS run USING (arrival_id)
    JOIN {schema}.locations AS start USING (location)
    GROUP BY run.location
) AS waiting ON waiting.location = place.location
CROSS JOIN LATERAL (
    SELECT coalesce(
        waiting.oldest, newest.epoch::numeric * place.last_number + newest.taken, 0
    ) - 1 AS sent
) AS mark;

-- Nobody but the owner.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
