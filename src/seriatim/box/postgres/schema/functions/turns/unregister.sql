-- Unregister. A notifier has removed the row already.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.unregister(waiter bigint) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    DELETE FROM {schema}.waiters WHERE waiter_id = waiter AND channel = 'seriatim_' || pg_backend_pid();
END
$function$;
