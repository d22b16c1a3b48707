-- Note where the partitions of a port start that has no position yet (`starts`: partition → position), and return the position of one; NULL:
-- it was added to a port that had begun. So a port that starts at the latest message starts there once, whatever is killed.
-- is: definer, lock timeout 2s
CREATE OR REPLACE FUNCTION {schema}.start_port(of_port text, of_partition text, of_kind text, starts jsonb) RETURNS jsonb
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    IF NOT EXISTS (SELECT FROM {schema}.ports WHERE port = of_port AND position IS NOT NULL) THEN
        INSERT INTO {schema}.ports AS known (port, partition, kind, holder, expires_at, position)
        SELECT of_port, one.key, of_kind, '', clock_timestamp(), one.value FROM jsonb_each(starts) AS one ORDER BY one.key
        ON CONFLICT (port, partition) DO UPDATE SET position = coalesce(known.position, excluded.position);
    END IF;
    RETURN (SELECT position FROM {schema}.ports WHERE port = of_port AND partition = of_partition);
END
$function$;
