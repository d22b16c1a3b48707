-- Purpose: now, and how long message ids are remembered, and faults and events are kept.
-- Index: none; one row.
SELECT now() AS moment, message_ids_for, swept_through, faults_for, events_for FROM {schema}.keeping
