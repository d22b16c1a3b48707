-- Return the role of the box in its regions, as `region_role` does, with a lock that keeps its fence until the
-- transaction ends. Each statement has its own snapshot: it reads rows that are younger than the lock.
-- is: own path
CREATE OR REPLACE FUNCTION {schema}.region_role_held(
    of_name text, OUT region text, OUT incarnation bigint, OUT learned integer, OUT fence bigint,
    OUT is_restored boolean,
    OUT queue_ids integer[]
) RETURNS SETOF record
AS $function$
DECLARE
    key constant bigint := {schema}.lock_of('region fence ' || of_name);
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(key) THEN
        PERFORM {schema}.wait_for_lock(key, TRUE, 'the regions ' || of_name);
    END IF;
    RETURN QUERY SELECT * FROM {schema}.region_role(of_name);
END
$function$;
