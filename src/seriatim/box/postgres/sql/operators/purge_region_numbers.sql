-- Purpose: forget the messages of some numbers of sessions in two regions: they are over, and a message that is
-- published again is no longer recognised.
-- Locks: the deleted rows. A sender of one of these messages waits for it.
-- Index: region_numbers_by_time, region_sessions_pkey, region_outbox_name_message_id_key, entries by place.
WITH old AS MATERIALIZED (
    SELECT its.queue_id, its.session, its.number, its.message_id
    FROM {schema}.region_numbers AS its
    JOIN {schema}.region_queues AS regional ON regional.queue_id = its.queue_id
    JOIN {schema}.region_sessions AS known ON known.queue_id = its.queue_id AND known.session = its.session
    WHERE its.published_at < %(before)s AND its.number <= known.over_through
        AND NOT EXISTS (
            SELECT FROM {schema}.region_outbox AS waiting
            WHERE waiting.name = regional.name AND waiting.message_id = its.message_id
        ) AND NOT EXISTS (
            SELECT FROM {schema}.entries AS entry
            WHERE entry.arrival_id = its.arrival_id AND entry.position = its.position
        )
    LIMIT %(batch)s
), gone AS (
    DELETE FROM {schema}.region_numbers AS its USING old
    WHERE its.queue_id = old.queue_id AND its.session = old.session AND its.number = old.number
        AND its.message_id = old.message_id
    RETURNING its.number
)
SELECT count(*) AS region_numbers FROM gone
