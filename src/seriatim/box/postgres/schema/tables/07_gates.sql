-- Gates: what is published while messages of an origin queue are worked on leaves a gate in the order of these
-- messages.

-- Which queues lead to which gate: the origin queue, the queues of its way, and the gate itself. Written anew with the
-- definitions of queues, which say it.
CREATE TABLE {schema}.ways (
    queue_id integer NOT NULL,
    gate_id integer NOT NULL,
    -- The name of the queue whose messages have their places there; and whether it is this queue.
    origin text NOT NULL,
    is_origin boolean NOT NULL,
    PRIMARY KEY (queue_id, gate_id)
);

-- Runs of `count` numbers of a group from `first` on. Rows are only added, by `give_places` alone, which reads the
-- group under its lock. The newest of a group says what is next.
CREATE TABLE {schema}.place_runs (
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    first {schema}.one_or_more NOT NULL,
    count {schema}.one_or_more NOT NULL,
    PRIMARY KEY (queue_id, group_key, first)
);

-- The places of messages that left their queue late, as a requeued one does that couldn't go back to its place: their
-- results leave the gate flagged as late, too. Gone when they have passed.
CREATE TABLE {schema}.late_places (
    gate_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (gate_id, group_key, number)
);
