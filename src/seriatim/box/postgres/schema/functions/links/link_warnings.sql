-- Return the queues of a link that group by something else there than here, in words.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.link_warnings(of_link integer) RETURNS text[]
RETURN ARRAY(
    SELECT format(
        'the queue "%s" groups by "%s" there and by "%s" here: the order of a group there isn''t kept on the way',
        place.queue, told.value, place.definition ->> 'group'
    )
    FROM {schema}.known_links AS one
    CROSS JOIN LATERAL jsonb_each_text(one.far_groups) AS told
    JOIN {schema}.queues AS place ON place.queue_id = told.key::integer
    WHERE one.link_id = of_link AND place.definition ->> 'at' = one.link
        AND place.definition #>> '{policy,name}' <> 'unordered'
        AND place.definition ->> 'group' <> told.value
    ORDER BY place.queue
);
