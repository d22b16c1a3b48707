-- Purpose: how many faults are written down, since when, and how long they are kept.
-- Index: faults_pkey, all of it.
SELECT
    (SELECT count(*) FROM {schema}.faults) AS faults,
    (SELECT at FROM {schema}.faults ORDER BY fault_id LIMIT 1) AS since,
    faults_for AS kept_for
FROM {schema}.keeping
