-- Make the part of the history for a day (UTC). Answers FALSE where it is there already, or where rows of that day are
-- in the rest, which then stay there.
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
    -- Made apart and then attached: that lets readers and writers of the other parts go on.
    EXECUTE format('CREATE TABLE {schema}.%I (LIKE {schema}.history INCLUDING DEFAULTS)', part);
    EXECUTE format(
        'ALTER TABLE {schema}.history ATTACH PARTITION {schema}.%I FOR VALUES FROM (%L) TO (%L)', part, begins, ends
    );
    RETURN TRUE;
END
$function$;
