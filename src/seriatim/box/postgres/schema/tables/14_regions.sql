-- What a box knows as one of two regions: which one it is, the numbers of sessions that it knows and has voted for, and
-- the messages that the other box lacks. Only the owner of the box writes here. Nothing here says which numbers are
-- over: that is in the journal.

-- Which region the box is, for each name. `incarnation`: its own, higher after each restore; `box_incarnation`: that of
-- the box with which it was made. `learned`: 2: it votes; 0: it was restored; 1: it has taken over the journal's
-- numbers. `fence`: the incarnation of the other region from which on its votes count.
CREATE TABLE {schema}.region_roles (
    name text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 128),
    region text NOT NULL CHECK (region IN ('a', 'b')),
    incarnation bigint NOT NULL CHECK (incarnation > 0),
    box_incarnation bigint NOT NULL,
    learned integer NOT NULL CHECK (learned BETWEEN 0 AND 2),
    fence bigint NOT NULL DEFAULT 0,
    defined_at timestamptz NOT NULL DEFAULT now(),
    -- One that was given another id counts as restored, as one in another incarnation does.
    box_id uuid
);

-- The queues of regions: they decide nothing themselves.
CREATE TABLE {schema}.region_queues (
    queue_id integer PRIMARY KEY,
    name text NOT NULL REFERENCES {schema}.region_roles
);

-- `through`: the highest number that the box knows of a session. `over_through`: through which number all is over, as
-- far as the box has heard.
CREATE TABLE {schema}.region_sessions (
    queue_id integer NOT NULL,
    session text COLLATE "C" NOT NULL,
    through bigint NOT NULL,
    over_through bigint,
    PRIMARY KEY (queue_id, session)
) WITH (fillfactor = 80);

-- The messages that the box has under their numbers. `voted`: the box has voted for it. `is_copy`: it came from the
-- other box. `withdrawn`: its sender has taken it back; the vote stays. `published_at`: when it was published, also of
-- a copy, by the clock of this box. `arrival_id`, `position`: where it is stored. `beside`: it has no entry in the
-- queue, because another message of this number has one; the journal says whose the number is.
CREATE TABLE {schema}.region_numbers (
    queue_id integer NOT NULL,
    session text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    message_id text NOT NULL,
    voted boolean NOT NULL,
    is_copy boolean NOT NULL,
    beside boolean NOT NULL DEFAULT FALSE,
    withdrawn boolean NOT NULL DEFAULT FALSE,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    published_at timestamptz NOT NULL,
    PRIMARY KEY (queue_id, session, number, message_id)
);
CREATE INDEX region_numbers_of_place ON {schema}.region_numbers (arrival_id, position);
CREATE INDEX region_numbers_of_message ON {schema}.region_numbers USING hash (message_id);
CREATE INDEX region_numbers_by_time ON {schema}.region_numbers USING brin (published_at) WITH (pages_per_range = 32);

-- The messages that the other box lacks, as far as is known. A message that isn't stored any more is over.
CREATE TABLE {schema}.region_outbox (
    outbox_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    message_id text NOT NULL,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    published_at timestamptz NOT NULL,
    UNIQUE (name, message_id)
);

-- `number`, `reservation`: what the journal keeps for it; a reservation that has ended is replaced by a later one.
CREATE TABLE {schema}.region_waiting (
    waiting_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    message_id text NOT NULL,
    queue_id integer NOT NULL,
    session text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    reservation text NOT NULL,
    type text NOT NULL,
    content_type text,
    context text NOT NULL,
    property_types jsonb,
    body bytea NOT NULL,
    part_names text[],
    part_content_types text[],
    part_bodies bytea[],
    published_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (name, message_id)
);
