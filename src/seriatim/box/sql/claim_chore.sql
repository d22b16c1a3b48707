-- Purpose: let one process at a time do a chore, however long its connection does nothing meanwhile: no limit of the
-- connection's or the server's ends the transaction, and with it the claim. It has no snapshot, so vacuum isn't held back.
-- Caller: chore.py.
-- Locks: an advisory lock of the schema and the chore, until the transaction ends; nobody waits for it.
-- Index: none.
SELECT
    pg_try_advisory_xact_lock(
        hashtextextended('seriatim chore ' || %(chore)s::text, '{schema}'::regnamespace::oid::bigint)
    ) AS mine,
    (
        SELECT count(set_config(name, '0', TRUE)) FROM pg_settings
        WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')
    ) AS limits
