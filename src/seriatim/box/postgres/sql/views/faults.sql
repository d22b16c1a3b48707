-- Purpose: what handlers failed at, newest first, a page of it; of one queue, key, pattern, message, kind, age, time,
-- property or text. The properties of a message that is gone are gone with it.
-- Index: faults_pkey; faults_of_group where a queue and a group are given. Without them rows are read from the newest on.
{shown_faults()}
WHERE {fault_fits()}
    AND (%(fault_id)s::bigint IS NULL OR one.fault_id = %(fault_id)s)
    AND (%(before)s::bigint IS NULL OR one.fault_id < %(before)s)
ORDER BY one.fault_id DESC
LIMIT %(limit)s
