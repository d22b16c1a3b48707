-- Wait for a lock of another process, as long as `lock_timeout` of the session allows, or else `lock_patience`; then
-- report its holder.
CREATE OR REPLACE FUNCTION {schema}.wait_for_lock(key bigint, shared boolean, of_what text) RETURNS boolean
AS $function$
DECLARE
    before text := current_setting('lock_timeout');
BEGIN
    IF before = '0' THEN
        PERFORM set_config('lock_timeout', {schema}.lock_patience(), TRUE);
    END IF;
    BEGIN
        IF shared THEN
            PERFORM pg_advisory_xact_lock_shared(key);
        ELSE
            PERFORM pg_advisory_xact_lock(key);
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        RAISE EXCEPTION 'waited % for the lock on %, held by %', current_setting('lock_timeout'), of_what,
            coalesce({schema}.holders_of(key), 'another waiter')
        USING ERRCODE = 'lock_not_available', HINT = 'docs/how-to/roles.md';
    END;
    IF before = '0' THEN
        PERFORM set_config('lock_timeout', before, TRUE);
    END IF;
    RETURN TRUE;
END
$function$;
