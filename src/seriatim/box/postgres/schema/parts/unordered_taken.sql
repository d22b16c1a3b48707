-- The last parts of both statements of `take_unordered`: note how far it has come, and return the messages of
-- `taken`, without those too far ahead of their gate.
noted AS MATERIALIZED (
    SELECT {schema}.reach(of_queue, min(rank)) FROM taken HAVING count(*) > 0
), far AS MATERIALIZED (
    SELECT one.group_key, one.bound FROM (
        SELECT
            taken.group_key, max(taken.ordinal) AS last, (
                SELECT (definition ->> 'open_at_most')::bigint FROM {schema}.queues WHERE queue_id = of_queue
            ) + coalesce((
                SELECT known.next FROM {schema}.known_groups AS known
                WHERE known.queue_id = taken.gate_id AND known.group_key = taken.group_key
            ), 1) AS bound
        FROM taken WHERE taken.gate_id IS NOT NULL AND taken.origin_number IS NULL
        GROUP BY taken.gate_id, taken.group_key
    ) AS one
    WHERE one.last >= one.bound
)
SELECT
    (SELECT max(version) FROM {schema}.changes) AS version,
    entry.entry_id,
    {handed_message()},
    entry.group_key,
    entry.ordinal
FROM taken AS entry
CROSS JOIN noted
{of_entry()}
LEFT JOIN far ON far.group_key = entry.group_key
WHERE far.bound IS NULL OR entry.origin_number IS NOT NULL OR entry.ordinal < far.bound
ORDER BY entry.rank, entry.entry_id
