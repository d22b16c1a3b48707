-- Purpose: which messages a full queue takes nevertheless.
-- Caller: queue_room.py.
-- Locks: none.
-- Index: message_ids_pkey, entries_of_group, known_groups_pkey.
SELECT {schema}.waited_for(
    %(queue_id)s, %(whole)s, %(message_ids)s::text[], %(group_keys)s::text[], %(sequences)s::bigint[]
)
