-- Purpose: take messages in, with the queues that they were routed to; those published before are left out. Their
-- tickets are given at commit, or here where that follows at once. Answers FALSE, and does nothing, where the definitions
-- have changed meanwhile.
-- Caller: Session.publish; several times for a batch of very large messages.
-- Locks: none beyond its own rows, and the locations' numbers where the commit follows at once. Two transactions with the
-- same message id wait for each other on it.
-- Index: message_ids_pkey, changes_pkey, tickets_arrival_id_key.
SELECT {schema}.take_in(
    %(version)s, %(message_ids)s::text[], %(types)s::text[], %(locations)s::text[], %(content_types)s::text[],
    %(contexts)s::text[], %(property_types)s::text[], %(bodies)b::bytea[],
    %(destinations)s::integer[], %(problems)s::text[],
    %(visible_at)s::timestamptz, %(delay)s::interval,
    %(entry_places)s::bigint[], %(entry_queues)s::integer[], %(entry_groups)s::text[], %(entry_sequences)s::bigint[],
    %(entry_sizes)s::bigint[], %(entry_priorities)s::integer[], %(entry_problems)s::text[],
    %(entry_subscriptions)s::text[],
    %(part_counts)s::integer[], %(part_places)s::bigint[], %(part_names)s::text[], %(part_content_types)s::text[],
    %(part_bodies)b::bytea[], %(by_itself)s, %(flushed)s
)
