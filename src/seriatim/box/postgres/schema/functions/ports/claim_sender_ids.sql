-- Note ids that senders have given their messages, whatever the bodies. Return those that were noted before. They are
-- remembered, and forgotten, like the ids of messages.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.claim_sender_ids(ids text[]) RETURNS text[]
AS $function$
DECLARE
    space text := '';
    fresh text[];
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    IF NOT {schema}.is_owner() THEN
        space := {schema}.space_of_role({schema}.caller());
    END IF;
    WITH noted AS (
        INSERT INTO {schema}.message_ids (message_id, id_space) SELECT DISTINCT id, space FROM unnest(ids) AS id ORDER BY id
        ON CONFLICT DO NOTHING RETURNING message_id
    )
    SELECT array_agg(message_id) INTO fresh FROM noted;
    RETURN ARRAY(SELECT id FROM unnest(ids) AS id WHERE id <> ALL (coalesce(fresh, '{}')));
END
$function$;
