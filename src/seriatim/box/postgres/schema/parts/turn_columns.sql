-- The entries of a turn, as arrays.
array_agg(place) AS places,
array_agg(code) AS codes,
array_agg(entry_id) AS entry_ids,
array_agg(sequence) AS sequences,
array_agg(size) AS sizes,
array_agg(rank) AS ranks,
array_agg(CASE
    WHEN subscription_ids <> '{}' AND subscription_ids <@ (
        SELECT array_agg(subscription_id) FROM {schema}.known_subscriptions
        WHERE queue_id = of_queue AND state <> 'started'
    ) THEN 9223372036854775807
    ELSE (extract(epoch FROM visible_at) * 1000000)::bigint END) AS visible,
array_agg(arrival) AS arrivals,
array_agg(ordinal) AS ordinals,
array_agg(late) AS late,
array_agg(waits) AS waits
