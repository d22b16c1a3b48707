-- Delete the registration of a receiver for a notification; a notifier has deleted its row already.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.unregister(waiter bigint) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    DELETE FROM {schema}.waiters WHERE waiter_id = waiter AND channel = 'seriatim_' || pg_backend_pid();
END
$function$;
