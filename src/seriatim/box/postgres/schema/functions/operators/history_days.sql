-- Return the days that have a partition of the history.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.history_days() RETURNS SETOF date
AS $function$
    SELECT to_date(right(class.relname, 8), 'YYYYMMDD')
    FROM pg_inherits AS part JOIN pg_class AS class ON class.oid = part.inhrelid
    WHERE part.inhparent = '{schema}.history'::regclass AND class.relname ~ '^history_\d{8}$'
    ORDER BY 1
$function$;
