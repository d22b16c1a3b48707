-- Numbers as records of a frame, by their incarnations; at most 10,000.
-- is: sql, immutable
CREATE OR REPLACE FUNCTION {schema}.link_range_records(
    incarnations bigint[], numbers int8multirange[], OUT how_many bigint, OUT records bytea
)
BEGIN ATOMIC
    SELECT count(*),
        coalesce(string_agg(int8send(one.incarnation) || int8send(lower(one.range)) || int8send(upper(one.range) - 1), ''::bytea
        ORDER BY one.incarnation, one.range), ''::bytea)
    FROM (
        SELECT told.incarnation, range
        FROM unnest(incarnations, numbers) AS told (incarnation, over), unnest(told.over) AS range
        ORDER BY told.incarnation, range LIMIT 10000
    ) AS one;
END;
