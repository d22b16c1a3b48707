-- Purpose: the open requests without a reply that are older than some seconds, by the type of the replies.
-- Index: none: all open requests are read; replies_of_request for each.
SELECT
    asked.reply_type AS reply, count(*) AS requests, min(asked.asked_at) AS since,
    (array_agg(asked.message_id ORDER BY asked.asked_at))[1] AS message_id
FROM {schema}.open_requests AS asked
WHERE asked.asked_at < clock_timestamp() - make_interval(secs => %(seconds)s) AND asked.until > clock_timestamp()
    AND NOT EXISTS (
        SELECT FROM {schema}.replies AS kept WHERE kept.request_id = asked.request_id AND kept.entry_id = 0
    )
GROUP BY asked.reply_type
ORDER BY count(*) DESC, asked.reply_type
