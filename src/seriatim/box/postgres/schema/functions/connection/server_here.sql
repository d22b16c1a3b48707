-- Return the present server. A value that the owner of the box may not read, or that the server doesn't report, is
-- NULL: the timeline of a standby, for one. The timeline is that of the write-ahead log: the control file has the old
-- one until the first checkpoint after a promotion.
-- is: stable, own path
CREATE OR REPLACE FUNCTION {schema}.server_here(
    OUT system_identifier bigint, OUT database_oid bigint, OUT timeline bigint, OUT is_standby boolean,
    OUT folder text, OUT folder_inode text
)
AS $function$
BEGIN
    BEGIN
        system_identifier := (SELECT control.system_identifier FROM pg_control_system() AS control);
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
        NULL;
    END;
    database_oid := (SELECT base.oid FROM pg_database AS base WHERE base.datname = current_database());
    is_standby := pg_is_in_recovery();
    IF NOT is_standby THEN
        BEGIN
            timeline := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
        EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function
            OR object_not_in_prerequisite_state THEN
            NULL;
        END;
    END IF;
    -- The embedded PostgreSQL is started with these.
    folder := nullif(current_setting('seriatim.folder', TRUE), '');
    folder_inode := nullif(current_setting('seriatim.folder_inode', TRUE), '');
END
$function$;
