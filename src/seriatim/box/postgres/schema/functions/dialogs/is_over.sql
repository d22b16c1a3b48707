-- Return whether the number of a conversation of the other box never comes back. `from_now_on`: it doesn't.
-- is: generic plan
CREATE OR REPLACE FUNCTION {schema}.is_over(of_link integer, said jsonb, from_now_on boolean) RETURNS boolean
AS $function$
DECLARE
    its_incarnation bigint := (said #>> '{number,0}')::bigint;
    its_number bigint := (said #>> '{number,1}')::bigint;
BEGIN
    IF (
        SELECT known.over @> its_number FROM {schema}.conversations AS known
        WHERE known.link_id = of_link AND NOT known.is_ours AND known.incarnation = its_incarnation
    ) THEN
        RETURN TRUE;
    END IF;
    IF from_now_on THEN
        INSERT INTO {schema}.conversations AS known (link_id, is_ours, incarnation, over)
        VALUES (of_link, FALSE, its_incarnation, int8multirange(int8range(its_number, its_number, '[]')))
        ON CONFLICT (link_id, is_ours, incarnation) DO UPDATE SET over = known.over + excluded.over;
    END IF;
    RETURN FALSE;
END
$function$;
