-- Purpose: whether a message of a batch fills a hole of a queue.
-- Index: staged_entries_of_part, entries_of_group, known_groups_pkey.
SELECT coalesce(bool_or(fills), FALSE)
FROM (
    SELECT array_agg(group_key) AS groups, array_agg(sequence) AS sequences FROM {schema}.staged_entries
    WHERE part_id = ANY (%(part_ids)s::bigint[]) AND queue_id = %(queue_id)s AND problem IS NULL
) AS staged, unnest({schema}.waited_for(
    %(queue_id)s, %(whole)s, array_fill(NULL::text, ARRAY[cardinality(groups)]), groups, sequences
)) AS fills
