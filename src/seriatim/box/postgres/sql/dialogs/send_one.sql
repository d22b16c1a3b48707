-- Purpose: send_run.sql for one message.
-- Locks: the group and the row of the dialog; the row of the other side, so that it doesn't end meanwhile.
-- Index: endpoints_pkey, endpoints_conversation_id_is_initiator_service_key, contracts_pkey, dialog_rules_pkey.
SELECT refused, what, remedy FROM {schema}.try_send_run(
    %(handle)s::uuid, %(kind)s, ARRAY[%(content_type)s::text], ARRAY[%(body)b::bytea]
)
