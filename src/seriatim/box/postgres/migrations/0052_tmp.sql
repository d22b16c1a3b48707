-- tmp
CREATE FUNCTION {schema}.place_numbers_given(of_queue integer, of_group text) RETURNS bigint
LANGUAGE sql STABLE
RETURN coalesce((SELECT known.ordinal FROM {schema}.known_groups AS known WHERE known.queue_id = of_queue AND known.group_key = of_group), 0);
