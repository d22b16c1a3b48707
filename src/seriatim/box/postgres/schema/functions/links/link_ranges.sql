-- Return the ranges of numbers at the beginning of a frame.
-- is: generic plan
CREATE OR REPLACE FUNCTION {schema}.link_ranges(
    frame bytea, how_many bigint
) RETURNS TABLE (incarnation bigint, numbers int8multirange)
AS $function$
BEGIN
    PERFORM {schema}.link_check(bool_and(
        one.incarnation > 0 AND one.first > 0 AND one.last BETWEEN one.first AND 9007199254740991
        AND (
            one.before_incarnation < one.incarnation OR one.before_incarnation = one.incarnation
                AND one.first > one.before + 1
        ) IS NOT FALSE
    ) IS NOT FALSE, 'a range of streams has numbers that no stream can have, or ranges overlap or aren''t in order')
    FROM (
        SELECT read.*, lag(read.last) OVER (ORDER BY read.nth) AS before,
            lag(read.incarnation) OVER (ORDER BY read.nth) AS before_incarnation
        FROM (
            SELECT nth, {schema}.link_u8(frame, 40 + 24 * nth) AS incarnation,
                {schema}.link_u8(frame, 48 + 24 * nth) AS first,
                {schema}.link_u8(frame, 56 + 24 * nth) AS last
            FROM generate_series(1, how_many) AS nth
        ) AS read
    ) AS one;
    RETURN QUERY
    SELECT {schema}.link_u8(frame, 40 + 24 * nth), range_agg(int8range(
        {schema}.link_u8(frame, 48 + 24 * nth), {schema}.link_u8(frame, 56 + 24 * nth), '[]'
    ))
    FROM generate_series(1, how_many) AS nth GROUP BY 1 ORDER BY 1;
END
$function$;
