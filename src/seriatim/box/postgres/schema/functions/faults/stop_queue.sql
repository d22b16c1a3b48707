-- Turn a queue off because a handler failed for good, and record the actor and the reason.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.stop_queue(of_queue integer, of_group text, of_worker text, why text) RETURNS void
AS $function$
DECLARE
    stopped text;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    PERFORM {schema}.take_lock({schema}.lock_of('definitions'), 'the definitions');
    UPDATE {schema}.queues SET enabled = FALSE WHERE queue_id = of_queue AND enabled RETURNING queue INTO stopped;
    IF stopped IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO {schema}.changes (version, what)
    SELECT max(version) + 1, format('turned off queue %s: %s', stopped, why) FROM {schema}.changes;
    INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason)
    VALUES (of_worker, 'stop', stopped, of_group, why);
END
$function$;
