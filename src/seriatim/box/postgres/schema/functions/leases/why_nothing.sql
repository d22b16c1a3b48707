-- Return why a receiver in SQL gets nothing, and wake the processes that judge where they can change that. A caller that
-- listens on its channel is called when a message comes.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.why_nothing(of_queue integer, channel text) RETURNS text
AS $function$
DECLARE
    moment CONSTANT timestamptz := clock_timestamp(); -- see `is_due`
    moment_us bigint := {schema}.now_us();
    here record;
BEGIN
    IF channel = ANY (ARRAY(SELECT pg_listening_channels())) THEN
        DELETE FROM {schema}.waiters AS one WHERE one.queue_id = of_queue AND one.channel = why_nothing.channel;
        PERFORM {schema}.register(of_queue);
    END IF;
    SELECT count(*) AS judges, count(*) FILTER (WHERE one.listens) AS listeners INTO here
    FROM {schema}.judges_here() AS one WHERE one.is_there;
    IF here.listeners = 0 THEN
        INSERT INTO {schema}.unjudged (queue_id) VALUES (of_queue) ON CONFLICT DO NOTHING;
    END IF;
    IF here.judges = 0 THEN
        RETURN 'nobody judges this box: start seriatim serve';
    END IF;
    IF NOT EXISTS (SELECT FROM {schema}.to_route)
        AND NOT EXISTS (SELECT FROM {schema}.entries WHERE queue_id = of_queue AND status = 'arrived')
        AND NOT EXISTS (SELECT FROM {schema}.known_groups WHERE queue_id = of_queue AND due_at <= moment_us)
        AND NOT EXISTS (SELECT FROM {schema}.requests WHERE queue_id = of_queue)
        AND NOT EXISTS (SELECT FROM {schema}.leases WHERE queue_id = of_queue AND expires_at <= moment)
        AND NOT EXISTS (SELECT FROM {schema}.endpoints WHERE due_at <= moment) THEN
        RETURN 'empty';
    END IF;
    PERFORM {schema}.call_judges(of_queue);
    RETURN 'judging';
END
$function$;
