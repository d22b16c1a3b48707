-- Purpose: how many unfinished messages a queue has, including held ones, without the last batch if it is finished.
-- Index: entries_of_group, entries_in_hand.
SELECT (
    SELECT count(*) FROM {schema}.entries WHERE queue_id = %(queue_id)s
) - (
    SELECT count(*) FROM {schema}.entries AS entry JOIN {schema}.readers AS reader USING (queue_id)
    WHERE queue_id = %(queue_id)s AND entry.batch <= reader.done
) AS messages
