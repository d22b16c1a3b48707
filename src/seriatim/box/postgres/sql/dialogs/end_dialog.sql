-- Purpose: end a side of a dialog.
-- Caller: dialogs.py.
-- Locks: its group; the rows of both sides.
-- Index: endpoints_pkey, endpoints_conversation_id_is_initiator_service_key, entries_of_group, spool_pkey.
SELECT refused, what, remedy FROM {schema}.try_end(
    %(handle)s::uuid, %(verb)s, %(code)s::integer, %(text)s, %(in_hand)s::text[]
)
