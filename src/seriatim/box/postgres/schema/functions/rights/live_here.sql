-- Make this the home of the box, under a new id or, with NULL, under its own: then in a new incarnation, because it
-- may have been restored from a backup.
CREATE OR REPLACE FUNCTION {schema}.live_here(new_id uuid, OUT box_id uuid, OUT incarnation bigint)
AS $function$
#variable_conflict use_column
BEGIN
    INSERT INTO {schema}.box_identity AS known (
        box_id, system_identifier, database_oid, timeline, folder, folder_inode
    )
    SELECT coalesce(new_id, gen_random_uuid()), here.system_identifier, here.database_oid, here.timeline,
        here.folder, here.folder_inode
    FROM {schema}.server_here() AS here
    ON CONFLICT (is_only) DO UPDATE SET
        box_id = coalesce(new_id, known.box_id),
        incarnation = CASE WHEN new_id IS NULL THEN known.incarnation + 1 ELSE 1 END,
        began_at = now(),
        system_identifier = EXCLUDED.system_identifier,
        database_oid = EXCLUDED.database_oid,
        timeline = EXCLUDED.timeline,
        folder = EXCLUDED.folder,
        folder_inode = EXCLUDED.folder_inode,
        disabled_by = NULL,
        disabled_why = NULL,
        disabled_at = NULL
    RETURNING known.box_id, known.incarnation INTO box_id, incarnation;
    PERFORM {schema}.renew_definitions();
END
$function$;
