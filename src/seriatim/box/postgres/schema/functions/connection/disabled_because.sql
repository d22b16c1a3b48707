-- Return why the box is disabled; NULL: it isn't. A value that one side doesn't know is no difference. A box without
-- an id is no copy.
-- is: stable, own path
CREATE OR REPLACE FUNCTION {schema}.disabled_because() RETURNS text
AS $function$
DECLARE
    known {schema}.box_identity;
    here record;
BEGIN
    SELECT * INTO known FROM {schema}.box_identity;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT * INTO here FROM {schema}.server_here();
    RETURN CASE
        WHEN known.system_identifier <> here.system_identifier THEN format(
            'it remembers the server with the system identifier %s, and this one has %s',
            known.system_identifier, here.system_identifier
        )
        WHEN known.database_oid <> here.database_oid THEN format(
            'it remembers the database with the oid %s, and "%s" has %s',
            known.database_oid, current_database(), here.database_oid
        )
        WHEN known.folder <> here.folder AND known.folder_inode <> here.folder_inode THEN format(
            'it remembers the folder %s, and this is %s, which is another one', known.folder, here.folder
        )
    END;
END
$function$;
