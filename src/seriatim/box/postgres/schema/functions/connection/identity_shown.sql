-- Return the box and its server for display: the remembered values, and the present ones. No row if the box has no id
-- yet.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.identity_shown() RETURNS TABLE (
    id uuid, incarnation bigint, since timestamptz, why_disabled text, disabled_by text, is_standby boolean,
    system_identifier bigint, database_oid bigint, timeline bigint, folder text,
    system_identifier_here bigint, database_oid_here bigint, timeline_here bigint, folder_here text
)
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
    SELECT known.box_id, known.incarnation, known.began_at, coalesce(
            elsewhere.why,
            known.disabled_by || ' has disabled it at ' || to_char(known.disabled_at, 'YYYY-MM-DD HH24:MI:SS TZ') || ': '
            || known.disabled_why
        ), CASE WHEN elsewhere.why IS NULL THEN known.disabled_by END, here.is_standby,
        known.system_identifier, known.database_oid, known.timeline, known.folder,
        here.system_identifier, here.database_oid, here.timeline, here.folder
    FROM {schema}.box_identity AS known CROSS JOIN {schema}.server_here() AS here
    CROSS JOIN {schema}.disabled_because() AS elsewhere (why);
END
$function$;
