-- Times are microseconds since 1970 by the clock of this database. Numbers of states are those of `kernel/regions/claims.py`.

-- One row. A claim's version is above `claim_floor`, so that it stays above those of sessions that are forgotten.
CREATE TABLE {schema}.journal (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id text NOT NULL,
    version integer NOT NULL,
    incarnation bigint NOT NULL,
    claim_floor bigint NOT NULL
);

-- What both regions say of a queue. A message that was published before `forgotten_before` is too old for a session that isn't known.
CREATE TABLE {schema}.queues (
    name text NOT NULL,
    queue text NOT NULL,
    start bigint NOT NULL,
    increment bigint NOT NULL,
    attempts integer NOT NULL,
    goes_on boolean NOT NULL,
    retry_after bigint NOT NULL,
    hole_timeout bigint NOT NULL,
    forgotten_before bigint,
    PRIMARY KEY (name, queue)
);

-- All numbers of a session up to `done_through` are over. `sent_through`: the highest number that the journal knows.
-- Each message changes the state and the last use of its session twice. With an index over these every change would write all
-- indexes anew; without one it writes none (PostgreSQL's heap-only tuples). Lists, and the forgetting of sessions, go by the key.
CREATE TABLE {schema}.sessions (
    name text NOT NULL,
    queue text NOT NULL,
    session text NOT NULL,
    done_through bigint NOT NULL,
    sent_through bigint NOT NULL,
    state smallint NOT NULL,
    version bigint NOT NULL,
    claim text,
    region text,
    lease_until bigint,
    hole_since bigint,
    forgotten_before bigint,
    take_overs bigint NOT NULL,
    conflicts bigint NOT NULL,
    used_at bigint NOT NULL,
    PRIMARY KEY (name, queue, session)
);

-- What is known of single numbers, or of the numbers from `first_number` to `number` if they were skipped together. `digest`: the SHA-256 of type, content
-- type and body. `due_at`: the next attempt, or the end of a reservation, whose id is `reservation`.
CREATE TABLE {schema}.entries (
    name text NOT NULL,
    queue text NOT NULL,
    session text NOT NULL,
    number bigint NOT NULL,
    first_number bigint NOT NULL,
    state smallint NOT NULL,
    message_id text,
    digest bytea,
    attempts integer NOT NULL,
    due_at bigint,
    reservation text,
    fault text,
    changed_at bigint NOT NULL,
    PRIMARY KEY (name, queue, session, number),
    CHECK (first_number <= number)
);

-- The regions, with the incarnations of their boxes, and the times since when nothing older is in their outbox, or can come into their queues.
CREATE TABLE {schema}.regions (
    name text NOT NULL,
    region text NOT NULL,
    incarnation bigint NOT NULL,
    outbox_since bigint,
    queue_since bigint,
    reported_at bigint,
    PRIMARY KEY (name, region)
);

-- What operators did.
CREATE TABLE {schema}.operator_log (
    id text PRIMARY KEY,
    name text NOT NULL,
    queue text,
    session text,
    at bigint NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL
);
CREATE INDEX operator_log_of_session ON {schema}.operator_log (name, queue, session, at);

-- Pipelines that run once in each region, of which one delivers at a time: who has the lease. `claim`: the holder's random id.
CREATE TABLE {schema}.pipelines (
    name text PRIMARY KEY,
    version bigint NOT NULL,
    claim text,
    region text,
    holder text,
    lease_until bigint,
    held_since bigint,
    take_overs bigint NOT NULL
);

-- What they have delivered: of a group of a destination all numbers up to `through`.
CREATE TABLE {schema}.delivered (
    pipeline text NOT NULL,
    destination text NOT NULL,
    group_key text NOT NULL,
    through bigint NOT NULL,
    delivered_at bigint NOT NULL,
    PRIMARY KEY (pipeline, destination, group_key)
);
