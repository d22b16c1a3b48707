-- Note through which numbers groups are delivered; it never goes back.
INSERT INTO {schema}.delivered AS known (pipeline, destination, group_key, through, delivered_at)
SELECT %(pipeline)s, %(destination)s, new.group_key, new.through, {STATEMENT_US}
FROM unnest(%(groups)s::text[], %(numbers)s::bigint[]) AS new (group_key, through)
ORDER BY new.group_key
ON CONFLICT (pipeline, destination, group_key)
DO UPDATE SET through = greatest(known.through, excluded.through), delivered_at = excluded.delivered_at
