-- Purpose: put another body in the place of that of an entry.
-- Caller: failed_message.py, under the lock of its group.
-- Locks: none.
-- Index: edited_bodies_pkey.
INSERT INTO {schema}.edited_bodies (entry_id, body, edited_by) VALUES (%(entry_id)s, %(body)s, %(actor)s)
