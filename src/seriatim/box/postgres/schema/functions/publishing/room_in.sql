-- Return how many more messages each of some queues may take; `mosts` are their limits. In a queue of another box,
-- messages on their way there count. At most that many entries of an index are read.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.room_in(of_queues integer[], mosts bigint[]) RETURNS bigint[]
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
        ) - coalesce((
            SELECT sum(stream.sent - stream.acked) FROM {schema}.known_links AS one
            JOIN {schema}.link_streams_out AS stream
                ON stream.link_id = one.link_id AND stream.queue_id = queue AND stream.acked < stream.sent
        ), 0)::bigint
        FROM unnest(of_queues, mosts) WITH ORDINALITY AS asked (queue, most, place)
        ORDER BY place
    );
END
$function$;
