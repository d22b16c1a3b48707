-- Purpose: delete the state of a queue's groups and their places, and its waiting receivers.
-- Locks: the rows. Waits for a turn that writes one.
-- Index: known_groups_pkey, requests_of_queue, place_runs_pkey, late_places_pkey, trials_pkey, waiters_of_queue.
WITH gone AS (
    DELETE FROM {schema}.known_groups WHERE queue_id = %(queue_id)s
), asked AS (
    DELETE FROM {schema}.requests WHERE queue_id = %(queue_id)s
), placed AS (
    DELETE FROM {schema}.place_runs WHERE queue_id = %(queue_id)s
), late AS (
    DELETE FROM {schema}.late_places WHERE gate_id = %(queue_id)s
), tried AS (
    DELETE FROM {schema}.trials WHERE queue_id = %(queue_id)s
)
DELETE FROM {schema}.waiters WHERE queue_id = %(queue_id)s
