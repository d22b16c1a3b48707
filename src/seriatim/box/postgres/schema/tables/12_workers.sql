-- Workers: the work of one process on one queue.

-- A worker: the work of one process on one queue. Not written to disk for sure: where PostgreSQL has to recover,
-- processes that live are here again within seconds. The process changes its row at each heartbeat, and nothing that is
-- in an index.
CREATE UNLOGGED TABLE {schema}.known_workers (
    process_id uuid NOT NULL,
    queue_id integer NOT NULL,
    role name NOT NULL DEFAULT {schema}.caller(),
    name text NOT NULL CHECK (length(name) <= 1024),
    host text NOT NULL CHECK (length(host) <= 256),
    pid integer NOT NULL,
    -- Whether it is a reader of an activation.
    reads boolean NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    mode text NOT NULL CHECK (length(mode) <= 64),
    -- How many threads it would have, and how many it has, where all processes together may have fewer groups in
    -- flight.
    capacity integer NOT NULL CHECK (capacity BETWEEN 0 AND 100000),
    threads integer NOT NULL CHECK (threads >= 0),
    run_length integer NOT NULL,
    -- Messages a second; NULL: no limit.
    rate double precision,
    -- How many turns are under way; and those of them that have taken longest: the group, the entry of the message that
    -- the handler has, and for how many seconds.
    busy integer NOT NULL CHECK (busy >= 0),
    in_hand jsonb NOT NULL CHECK (length(in_hand::text) <= 1000000),
    PRIMARY KEY (process_id, queue_id)
) WITH (fillfactor = 50);
CREATE INDEX workers_of_queue ON {schema}.known_workers (queue_id);
