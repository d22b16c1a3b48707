-- Purpose: the sides of dialogs as they stand.
-- Caller: dialogs.py.
-- Locks: none.
-- Index: endpoints_pkey for one; none for all. operator_log_of_group for each.
SELECT
    handle, conversation_id, state, service, to_services, contract, queue, group_id, is_initiator, is_monolog, priority,
    encryption, retention, send_sequence, receive_sequence, unread, waiting, transmission_status, began_at, closed_at,
    expires_at, timer_at, error_code, error, (
        SELECT CASE log.action WHEN 'suspend' THEN format('%%s: %%s', log.actor, log.reason) END
        FROM {schema}.operator_log AS log
        WHERE log.queue = one.queue AND log.group_key = one.group_id::text
            AND log.action IN ('suspend', 'resume', 'skip_message')
        ORDER BY log.operation_id DESC LIMIT 1
    ) AS suspended
FROM {schema}.dialogs AS one
WHERE (%(handle)s::uuid IS NULL OR handle = %(handle)s::uuid)
    AND (%(service)s::text IS NULL OR service = %(service)s::text)
    AND (%(state)s::text IS NULL OR state = %(state)s::text)
    AND (%(older_than)s::interval IS NULL OR began_at <= clock_timestamp() - %(older_than)s::interval)
ORDER BY began_at, handle
LIMIT %(most)s
