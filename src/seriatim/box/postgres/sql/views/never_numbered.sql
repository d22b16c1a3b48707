-- Purpose: messages of ended transactions that weren't numbered: others see no other rows of arrivals.
-- Index: spool_pkey. The arrivals are read whole; mostly there are none.
SELECT one.location, sum(one.count)::bigint AS messages, min(first.received_at) AS since
FROM {schema}.arrivals AS one
LEFT JOIN {schema}.spool AS first ON first.arrival_id = one.arrival_id AND first.position = 0
GROUP BY one.location ORDER BY one.location LIMIT %(most)s
