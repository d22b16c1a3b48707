-- A lease that a caller holds by its id, from any process, until an hour after its end. Turns read `leases` only.
-- Positions count from 1 in the arrays; they are emptied when the lease ends, and `size` stays. `role`, `holder`: whose
-- it is, a role and a name that its server gave. `period`: the time that was asked for last. `at_commit`: it was handed
-- out in a caller's transaction, and begins at its commit. `is_set`: it is done as a whole. `answers`: the calls that
-- changed it, in order, each with what it was and its answer. `ended_at`: NULL also where nobody has ended it and its
-- row in `leases` is gone, until the clean-up notices that.
CREATE TABLE {schema}.deliveries (
    delivery_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    queue_id integer NOT NULL,
    group_key text COLLATE "C",
    incarnation integer NOT NULL,
    token bigint NOT NULL UNIQUE,
    role name NOT NULL,
    holder text NOT NULL,
    attempt_id text CHECK (length(attempt_id) BETWEEN 1 AND 256),
    period interval NOT NULL,
    at_commit boolean NOT NULL,
    is_set boolean NOT NULL,
    size integer NOT NULL,
    entry_ids bigint[] NOT NULL,
    ordinals bigint[] NOT NULL,
    lates boolean[] NOT NULL,
    done integer NOT NULL DEFAULT 0,
    answers jsonb NOT NULL DEFAULT '[]',
    ended_at timestamptz
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX deliveries_by_attempt ON {schema}.deliveries (queue_id, role, holder, attempt_id)
WHERE attempt_id IS NOT NULL;
CREATE INDEX deliveries_ended ON {schema}.deliveries (ended_at);
CREATE CONSTRAINT TRIGGER lease_at_commit AFTER INSERT ON {schema}.deliveries DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.at_commit) EXECUTE FUNCTION {schema}.lease_at_commit();
ALTER TABLE {schema}.deliveries ENABLE ALWAYS TRIGGER lease_at_commit;

-- How the holder said that it failed: kind, error, and the wait before the next attempt; whoever finds the lease
-- expired counts that. NULL: it ran out.
ALTER TABLE {schema}.leases ADD COLUMN told jsonb;

-- Processes that route, judge and fire timers for receivers in SQL, which can't. `backend`: the connection on which one
-- listens; NULL: behind a pooler.
CREATE UNLOGGED TABLE {schema}.judges (
    process_id uuid PRIMARY KEY,
    role name NOT NULL,
    name text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    backend integer,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Queues from which somebody received in SQL while no judge could be called, until one has looked.
CREATE UNLOGGED TABLE {schema}.unjudged (
    queue_id integer PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);
