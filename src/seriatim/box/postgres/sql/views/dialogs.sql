-- Purpose: the sides of dialogs as they stand, the oldest first, at most so many: after one that began then, with that handle.
-- Index: endpoints_pkey for one, endpoints_by_age for others: first which they are, then what each shows, which is counted.
-- operator_log_of_group for each.
WITH chosen AS MATERIALIZED (
    SELECT known.handle, known.began_at FROM {schema}.endpoints AS known
    WHERE (%(handle)s::uuid IS NULL OR known.handle = %(handle)s::uuid)
        AND (%(service)s::text IS NULL OR known.service = %(service)s::text)
        -- As the view has it.
        AND (%(state)s::text IS NULL OR %(state)s::text = CASE
            WHEN known.expires_at <= clock_timestamp() AND known.state IN ('SO', 'SI', 'CO', 'DI') THEN 'ER' ELSE known.state
        END)
        AND (%(older_than)s::interval IS NULL OR known.began_at <= clock_timestamp() - %(older_than)s::interval)
        AND (NOT %(waits)s::boolean OR EXISTS (
            SELECT FROM {schema}.transmission AS waiting WHERE waiting.handle = known.handle
        ))
        AND (%(unanswered)s::interval IS NULL OR known.link_id IS NOT NULL AND EXISTS (
            SELECT FROM {schema}.transmission AS waiting
            WHERE waiting.handle = known.handle AND waiting.sent_at <= clock_timestamp() - %(unanswered)s::interval
        ))
        AND (
            %(after_at)s::timestamptz IS NULL
            OR (known.began_at, known.handle) > (%(after_at)s::timestamptz, %(after_handle)s::uuid)
        )
    ORDER BY known.began_at, known.handle
    LIMIT %(limit)s
)
SELECT
    one.handle, one.conversation_id, one.state, one.service, one.to_services, one.contract, one.queue, one.group_id,
    one.is_initiator, one.is_monolog, one.priority, one.encryption, one.retention, one.send_sequence, one.receive_sequence,
    one.unread, one.waiting, one.transmission_status, one.began_at, one.closed_at, one.expires_at, one.timer_at, one.error_code,
    one.error, one.far_box, one.link, one.stream, one.acknowledged, one.last_contact, one.unanswered_since, (
        SELECT CASE log.action WHEN 'suspend' THEN format('%%s: %%s', log.actor, log.reason) END
        FROM {schema}.operator_log AS log
        WHERE log.queue = one.queue AND log.group_key = one.group_id::text
            AND log.action IN ('suspend', 'resume', 'skip_message')
        ORDER BY log.operation_id DESC LIMIT 1
    ) AS suspended
FROM chosen CROSS JOIN LATERAL (
    SELECT * FROM {schema}.dialogs AS its WHERE its.handle = chosen.handle LIMIT 1
) AS one
ORDER BY chosen.began_at, chosen.handle
