-- Purpose: send messages in dialogs, all or none.
-- Caller: dialogs.py.
-- Locks: the groups and the rows of the dialogs; the rows of the other sides, so that they don't end meanwhile.
-- Index: endpoints_pkey, endpoints_conversation_id_is_initiator_service_key, contracts_pkey, dialog_rules_pkey.
SELECT refused, what, remedy FROM {schema}.try_send(
    %(handles)s::uuid[], %(types)s::text[], %(content_types)s::text[], %(bodies)b::bytea[]
)
