-- Keep the present definitions, by which the caller routes, in use until its transaction ends: a process that removes
-- them waits for that. A transaction that keeps its snapshot fails if a definition was removed, or stopped, that it
-- still sees. Return the version.
CREATE OR REPLACE FUNCTION {schema}.hold_definitions() RETURNS bigint
AS $function$
DECLARE
    -- Not by PERFORM, which runs a query.
    held boolean := pg_try_advisory_xact_lock_shared({schema}.lock_of('publishers'))
        OR {schema}.wait_for_lock({schema}.lock_of('publishers'), TRUE, 'publishing');
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM FROM {schema}.queues FOR SHARE;
        PERFORM FROM {schema}.known_subscriptions FOR SHARE;
    END IF;
    RETURN (SELECT version FROM {schema}.changes ORDER BY version DESC LIMIT 1);
END
$function$;
