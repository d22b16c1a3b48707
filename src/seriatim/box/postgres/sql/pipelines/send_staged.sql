-- Purpose: send what is staged for the next keys of a batch, at most so many, each key's messages in a dialog of its own.
-- Caller: dialog_staging.py, which holds the definitions and the writer's row.
-- Locks: as `send`, for all of these dialogs.
-- Index: staged_keys_of_part, staged_messages_of_part, writer_dialogs_pkey, endpoints_pkey, services_pkey.
SELECT keys, messages FROM {schema}.send_staged(
    %(writer)s, %(batch)s, %(part_ids)s::bigint[], %(from_service)s, %(service)s, %(contract)s, %(how_many)s
)
