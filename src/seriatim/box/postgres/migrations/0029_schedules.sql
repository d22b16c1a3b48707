-- Schedules: messages that the box publishes at times that cron text names. Only the owner of the box has them.

-- `next_at`: the due time that comes next, NULL: none any more. It moves in the transaction that publishes, under the lock
-- of the row: so each due time gives its message once, whoever looks. `last_at`: the due time of the last message,
-- `last_message`: its id, `published_at`: when that was. `failed_at`, `error`: why nothing could be published, and since
-- when; `look_at`: it is tried again from then on. `paused_at`, `paused_by`: it is paused.
CREATE TABLE {schema}.schedules (
    schedule text COLLATE "C" PRIMARY KEY CHECK (length(schedule) BETWEEN 1 AND 128),
    definition jsonb NOT NULL,
    next_at timestamptz,
    last_at timestamptz,
    last_message text,
    published_at timestamptz,
    published {schema}.zero_or_more NOT NULL DEFAULT 0,
    failed_at timestamptz,
    error text,
    look_at timestamptz,
    paused_at timestamptz,
    paused_by text
);
