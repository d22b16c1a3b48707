-- Whether `take_unordered` may take an entry: it may be seen, its subscription is started, and no turn has it, or
-- seems to have died with it.
(visible_at IS NULL OR visible_at <= clock_timestamp())
AND (subscription_ids <> '{}' AND subscription_ids <@ (SELECT ids FROM stopped)) IS NOT TRUE
AND NOT (
    wary AND xmax <> '0' AND xmax <> ALL ((SELECT {schema}.running())::xid[])
    AND {schema}.was_rolled_back(xmax)
)
