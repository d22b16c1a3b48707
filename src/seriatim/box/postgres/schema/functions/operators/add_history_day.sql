-- Make the history's partition for a day (UTC). Return FALSE if it exists, or if rows of that day are in the rest,
-- where they stay. The owner of the box owns it, whichever of its members calls.
CREATE OR REPLACE FUNCTION {schema}.add_history_day(of_day date) RETURNS boolean
AS $function$
DECLARE
    part text := 'history_' || to_char(of_day, 'YYYYMMDD');
    begins timestamptz := of_day::timestamp AT TIME ZONE 'UTC';
    ends timestamptz := (of_day + 1)::timestamp AT TIME ZONE 'UTC';
BEGIN
    IF to_regclass(format('{schema}.%I', part)) IS NOT NULL OR EXISTS (
        SELECT FROM {schema}.history_rest WHERE done_at >= begins AND done_at < ends
    ) THEN
        RETURN FALSE;
    END IF;
    -- Made separately and then attached: readers and writers of the other partitions go on.
    EXECUTE format('CREATE TABLE {schema}.%I (LIKE {schema}.history INCLUDING DEFAULTS)', part);
    EXECUTE format(
        'ALTER TABLE {schema}.%I OWNER TO %I', part,
        (SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE oid = '{schema}'::regnamespace)
    );
    EXECUTE format(
        'ALTER TABLE {schema}.history ATTACH PARTITION {schema}.%I FOR VALUES FROM (%L) TO (%L)', part, begins, ends
    );
    RETURN TRUE;
END
$function$;
