-- Called once for each connection that a process makes: gives an id to a box that has none, and notes a new timeline
-- as a new incarnation. Only the owner can give it values, whose session has the folder. `is_final`: whether the
-- result holds as long as the connection does: not on a server without writes, since a standby can be promoted.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.look_at_identity(
    OUT box_id uuid, OUT incarnation bigint, OUT why_disabled text, OUT is_final boolean
)
AS $function$
#variable_conflict use_column
DECLARE
    known {schema}.box_identity;
    here record;
    own boolean := {schema}.is_owner();
BEGIN
    PERFORM {schema}.permit_anything();
    is_final := current_setting('transaction_read_only') = 'off';
    SELECT * INTO known FROM {schema}.box_identity;
    SELECT * INTO here FROM {schema}.server_here();
    IF known.box_id IS NULL AND is_final THEN
        -- Of several at once the others wait for the first one, and then read its row.
        INSERT INTO {schema}.box_identity (box_id, system_identifier, database_oid, timeline, folder, folder_inode)
        VALUES (
            gen_random_uuid(), here.system_identifier, here.database_oid, here.timeline,
            CASE WHEN own THEN here.folder END, CASE WHEN own THEN here.folder_inode END
        ) ON CONFLICT DO NOTHING;
        SELECT * INTO known FROM {schema}.box_identity;
    END IF;
    why_disabled := {schema}.disabled_because();
    IF why_disabled IS NULL AND is_final THEN
        IF known.timeline <> here.timeline THEN
            UPDATE {schema}.box_identity AS one
            SET incarnation = one.incarnation + 1, began_at = now(), timeline = here.timeline
            WHERE one.timeline <> here.timeline
            RETURNING one.incarnation INTO known.incarnation;
            IF FOUND THEN
                PERFORM {schema}.renew_definitions();
                INSERT INTO {schema}.operator_log (actor, action, reason, details)
                VALUES (
                    'seriatim', 'new incarnation',
                    'the server was promoted, or recovered to a point in time: its timeline is another one',
                    jsonb_build_object(
                        'box', known.box_id, 'incarnation', known.incarnation,
                        'timeline', jsonb_build_array(known.timeline, here.timeline)
                    )
                );
            ELSE
                SELECT one.incarnation INTO known.incarnation FROM {schema}.box_identity AS one;
            END IF;
        END IF;
        -- Store values that weren't known before; and the present folder, if it was moved or has another
        -- inode.
        IF known.system_identifier IS NULL AND here.system_identifier IS NOT NULL
            OR known.timeline IS NULL AND here.timeline IS NOT NULL
            OR own AND (known.folder, known.folder_inode) IS DISTINCT FROM (here.folder, here.folder_inode)
            AND here.folder IS NOT NULL THEN
            UPDATE {schema}.box_identity AS one SET
                system_identifier = coalesce(one.system_identifier, here.system_identifier),
                timeline = coalesce(one.timeline, here.timeline),
                folder = CASE WHEN own THEN coalesce(here.folder, one.folder) ELSE one.folder END,
                folder_inode = CASE
                    WHEN own THEN coalesce(here.folder_inode, one.folder_inode)
                    ELSE one.folder_inode
                END;
        END IF;
    END IF;
    box_id := known.box_id;
    incarnation := known.incarnation;
END
$function$;
