-- What is handed out one at a time, because a transaction that had it in hand was rolled back, and nobody knows why: it may
-- have ended its process. It is a suspicion only. So a worker writes down, and commits, that it begins with a message,
-- before it calls the handler; who finds that later, and nobody at work, counts an attempt. After a crash of the server
-- the table is empty, as it should be: that ended all turns.
CREATE UNLOGGED TABLE {schema}.trials (
    queue_id integer NOT NULL,
    -- The key of the group, or in a queue without groups the number of the message's entry.
    unit text COLLATE "C" NOT NULL,
    group_key text COLLATE "C",
    -- So many messages of the group are still to be handed out one at a time.
    remaining integer NOT NULL DEFAULT 1,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The first of the messages that a worker has begun with last, and how often without an end of its turn.
    entry_id bigint,
    times integer NOT NULL DEFAULT 0,
    -- While it is at work: the number of that turn, of the same sequence as that of a lease, and when its server began.
    token bigint,
    worker text,
    server_began timestamptz,
    PRIMARY KEY (queue_id, unit)
) WITH (fillfactor = 50);
