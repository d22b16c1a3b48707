-- Who votes on a number, and counts the vote of the other region, reads that region's fence first. If the other region is restored before that
-- transaction ends, it would learn which numbers are known here without this one, and vote for another message under it. So the
-- transaction holds the fence where it is, and a restored region waits for it.

-- As `region_role`, of which the fence stays as it is until the transaction ends. Each statement has a snapshot of its own: what is read is younger than the lock.
CREATE FUNCTION {schema}.region_role_held(
    of_name text, OUT region text, OUT incarnation bigint, OUT learned integer, OUT fence bigint, OUT is_restored boolean,
    OUT queue_ids integer[]
) RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
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

DROP FUNCTION {schema}.region_fence(text, bigint);
CREATE FUNCTION {schema}.region_fence(of_name text, incarnation bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    key constant bigint := {schema}.lock_of('region fence ' || of_name);
BEGIN
    PERFORM {schema}.take_lock(key, 'the regions ' || of_name);
    UPDATE {schema}.region_roles AS role SET fence = greatest(role.fence, region_fence.incarnation) WHERE role.name = of_name;
END
$function$;
