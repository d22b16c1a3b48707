-- Pipelines that read queues, and write to them.

-- Names of parts, each given once: of its own, because that of an unlogged table's begins anew after a crash.
CREATE SEQUENCE {schema}.part_ids;

-- The queues that pipelines read. `reader`: what the pipeline's checkpoint knows itself by. `batch`: the newest batch
-- that is complete, and may be handed over again and again; `done`: through this one they are worked on, and
-- those before it are gone.
CREATE TABLE {schema}.readers (
    queue_id integer PRIMARY KEY REFERENCES {schema}.queues,
    reader text NOT NULL,
    batch bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0 CHECK (done <= batch)
);

-- Who writes batches into the box, and the last one of each that is in it, by which version of the definitions it was
-- routed. A batch that comes again is in it already.
CREATE TABLE {schema}.writers (
    writer text PRIMARY KEY,
    batch bigint NOT NULL DEFAULT -1,
    version bigint,
    messages bigint NOT NULL DEFAULT 0,
    merged_at timestamptz NOT NULL DEFAULT now(),
    -- The number of the last run that wrote: one that it has superseded writes no more.
    fence bigint NOT NULL DEFAULT 0
);

-- Parts of batches, staged by tasks that may be repeated; what a batch is made of is said when it is merged. None of
-- it outlives a crash of the server, which the merge notices; the batch is then staged anew.
CREATE UNLOGGED TABLE {schema}.parts (
    part_id bigint PRIMARY KEY DEFAULT nextval('{schema}.part_ids'),
    writer text NOT NULL,
    batch bigint NOT NULL,
    version bigint NOT NULL,
    messages bigint NOT NULL,
    entries bigint NOT NULL,
    staged_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX parts_of_writer ON {schema}.parts (writer, batch);
CREATE INDEX parts_by_age ON {schema}.parts (staged_at);

CREATE UNLOGGED TABLE {schema}.staged_messages (
    part_id bigint NOT NULL,
    place bigint NOT NULL,
    message_id text NOT NULL,
    type text NOT NULL,
    location text NOT NULL,
    content_type text,
    context text NOT NULL,
    property_types text,
    body bytea NOT NULL,
    destinations integer NOT NULL,
    problem text,
    -- How many parts it has; NULL: none.
    parts integer
);
CREATE INDEX staged_messages_of_part ON {schema}.staged_messages (part_id, place);

-- Where they go. `place` is that of the message in its part.
CREATE UNLOGGED TABLE {schema}.staged_entries (
    part_id bigint NOT NULL,
    place bigint NOT NULL,
    queue_id integer NOT NULL,
    group_key text,
    sequence bigint,
    size bigint,
    priority integer NOT NULL,
    problem text,
    subscription_ids integer[] NOT NULL
);
CREATE INDEX staged_entries_of_part ON {schema}.staged_entries (part_id, place);

-- What they have beside their bodies. `place` is that of the message in its part of the batch.
CREATE UNLOGGED TABLE {schema}.staged_message_parts (
    part_id bigint NOT NULL,
    place bigint NOT NULL,
    number bigint NOT NULL,
    name text NOT NULL,
    content_type text,
    body bytea NOT NULL
);
CREATE INDEX staged_message_parts_of_part ON {schema}.staged_message_parts (part_id, place);

-- The dialogs that pipelines send in: for each key of a writer the one that its messages go into, and the last batch of
-- the writer of which they are sent. It outlives its dialog until that batch is whole, so that nothing is sent twice.
CREATE TABLE {schema}.writer_dialogs (
    writer text NOT NULL,
    key text COLLATE "C" NOT NULL,
    handle uuid NOT NULL,
    batch bigint NOT NULL,
    PRIMARY KEY (writer, key)
);
CREATE INDEX writer_dialogs_of_handle ON {schema}.writer_dialogs (handle);

-- By which keys staged messages go into dialogs; `problem`: why one doesn't. `place` is that of the message in its
-- part.
CREATE UNLOGGED TABLE {schema}.staged_keys (
    part_id bigint NOT NULL,
    place bigint NOT NULL,
    key text COLLATE "C",
    problem text
);
CREATE INDEX staged_keys_of_part ON {schema}.staged_keys (part_id, key, place);
