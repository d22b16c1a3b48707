-- Return the token with a hash, if it is valid. `is_mighty`: its role is the owner of the box, or a superuser.
-- is: definer, stable
CREATE OR REPLACE FUNCTION {schema}.find_token(
    hash_body bytea, OUT name text, OUT role text, OUT publish text[], OUT receive text[], OUT is_mighty boolean,
    OUT id_space text
) RETURNS SETOF record
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT
        one.name::text, known.rolname::text,
        ARRAY(SELECT place.queue::text FROM {schema}.queues AS place WHERE place.queue_id = ANY (one.publish)),
        ARRAY(SELECT place.queue::text FROM {schema}.queues AS place WHERE place.queue_id = ANY (one.receive)),
        known.rolsuper OR pg_has_role(known.oid, current_user, 'MEMBER'), {schema}.space_of_role(known.rolname)
    FROM {schema}.tokens AS one JOIN pg_roles AS known ON known.oid = one.role::oid
    WHERE one.hash = hash_body AND coalesce(one.expires_at > clock_timestamp(), TRUE);
END
$function$;
