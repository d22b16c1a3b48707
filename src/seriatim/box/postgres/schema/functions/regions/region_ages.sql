-- Messages that wait for their confirmation are still to come: the other box lacks them, too.
-- is: stable, own path
CREATE OR REPLACE FUNCTION {schema}.region_ages(
    of_name text, OUT outbox bigint, OUT outbox_age bigint, OUT queue_age bigint, OUT beside bigint
) RETURNS SETOF record
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
    SELECT count(*), min(one.published_at) INTO outbox, oldest FROM {schema}.region_outbox AS one
    WHERE one.name = of_name;
    SELECT count(*), min(one.published_at) INTO more, waiting FROM {schema}.region_waiting AS one
    WHERE one.name = of_name;
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
