-- Begin an incarnation of the other region: votes of its earlier ones don't count any more.
-- is: own path
CREATE OR REPLACE FUNCTION {schema}.region_fence(of_name text, incarnation bigint) RETURNS void
AS $function$
DECLARE
    key constant bigint := {schema}.lock_of('region fence ' || of_name);
BEGIN
    PERFORM {schema}.take_lock(key, 'the regions ' || of_name);
    UPDATE {schema}.region_roles AS role SET fence = greatest(role.fence, region_fence.incarnation)
    WHERE role.name = of_name;
END
$function$;
