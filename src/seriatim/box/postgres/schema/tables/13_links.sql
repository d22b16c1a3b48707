-- Links to other boxes: who may speak as which box, and the streams of messages in both directions.

-- A pair of boxes, as this one knows it. `definition`: of `Link`, where this box has the address of the other; NULL:
-- the other one calls. `peer`: the id of the other box; NULL before the first contact. `role`: the role that speaks as
-- that box here. `queues`: into which it may send. `replayed_through`: what waits up to this entry may have left before
-- a restore. The counters are for people.
CREATE TABLE {schema}.links (
    link_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    link text NOT NULL UNIQUE,
    definition jsonb,
    peer uuid UNIQUE,
    role regrole UNIQUE,
    queues text[] NOT NULL DEFAULT '{}',
    replayed_through bigint NOT NULL DEFAULT 0,
    made_at timestamptz NOT NULL DEFAULT now(),
    sent_at timestamptz,
    received_at timestamptz,
    failed_at timestamptz,
    last_error text,
    sent bigint NOT NULL DEFAULT 0,
    received bigint NOT NULL DEFAULT 0,
    replayed bigint NOT NULL DEFAULT 0,
    restored bigint NOT NULL DEFAULT 0,
    -- The SHA-256 of the key as a certificate has it (SubjectPublicKeyInfo). It speaks as one box only.
    public_key bytea UNIQUE CHECK (octet_length(public_key) = 32),
    -- By which property a queue of the other box groups, as that one told when a stream to it began: by the number of
    -- the queue here.
    far_groups jsonb NOT NULL DEFAULT '{}',
    -- The highest that was heard of.
    peer_incarnation bigint NOT NULL DEFAULT 0,
    -- When the other box spoke as an older one, and as which.
    older_at timestamptz,
    older_incarnation bigint,
    -- Whether the peer may ask what became of its messages.
    traces boolean NOT NULL DEFAULT FALSE,
    CONSTRAINT links_principal_check CHECK (role IS NULL OR public_key IS NULL)
);

-- Numbers of streams: of those that this box has opened (`is_ours`), and of those of the other one. `incarnation`: of
-- the box that has opened them. `highest`: the last number, `begins` the first chain of that stream. `over`: the
-- numbers that never come back.
CREATE TABLE {schema}.link_numbers (
    link_id integer NOT NULL REFERENCES {schema}.links ON DELETE CASCADE,
    is_ours boolean NOT NULL,
    incarnation bigint NOT NULL CHECK (incarnation > 0),
    highest bigint NOT NULL DEFAULT 0,
    begins bytea NOT NULL,
    over int8multirange NOT NULL DEFAULT '{}',
    PRIMARY KEY (link_id, is_ours, incarnation)
);

-- Streams that this box sends. `status`: see `Status` of kernel/streams.py. `chain`: at `acked`; `sent_chain`: at
-- `sent`; `kept_chain`: at `kept`, behind which everything is still here. `marked`: what was sent again is marked as
-- replayed up to this number. `lacks`: of a broken stream, above which number the receiver lacks something. `token`: of
-- the last question. `ahead_bytes`: of what isn't acknowledged. `fragment`: of message `acked` + 1, the first that the
-- receiver lacks.
CREATE TABLE {schema}.link_streams_out (
    stream_id uuid PRIMARY KEY,
    link_id integer NOT NULL REFERENCES {schema}.links ON DELETE CASCADE,
    incarnation bigint NOT NULL,
    number bigint NOT NULL,
    queue_id integer NOT NULL,
    destination text NOT NULL,
    -- Compared by its bytes, as in entries: with another collation an index can't find it.
    key text COLLATE "C" NOT NULL,
    status smallint NOT NULL DEFAULT {status.OPEN},
    acked bigint NOT NULL DEFAULT 0,
    chain bytea NOT NULL,
    sent bigint NOT NULL DEFAULT 0,
    sent_chain bytea NOT NULL,
    kept bigint NOT NULL DEFAULT 0,
    kept_chain bytea NOT NULL,
    marked bigint NOT NULL DEFAULT 0,
    lacks bigint NOT NULL DEFAULT 0,
    token uuid,
    ahead_bytes bigint NOT NULL DEFAULT 0,
    fragment integer NOT NULL DEFAULT 0,
    last_used timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts integer NOT NULL DEFAULT 0,
    next_try_at timestamptz NOT NULL DEFAULT '-infinity',
    last_error text,
    UNIQUE (link_id, incarnation, number)
);
-- What there is to send, by when; and idle streams.
CREATE INDEX link_streams_to_send ON {schema}.link_streams_out (link_id, next_try_at) WHERE status <> {status.OPEN} OR acked < sent;
CREATE INDEX link_streams_idle ON {schema}.link_streams_out (link_id, last_used) WHERE status = {status.OPEN} AND kept = sent;
CREATE INDEX link_streams_kept ON {schema}.link_streams_out (link_id, stream_id) WHERE kept < acked;
CREATE UNIQUE INDEX link_streams_of_keys ON {schema}.link_streams_out (queue_id, key);

-- Messages on their way: what isn't acknowledged, and for a time what is. `chain`: at this number. The body has the
-- parts behind it. Neither is compressed again.
CREATE TABLE {schema}.link_messages (
    stream_id uuid NOT NULL REFERENCES {schema}.link_streams_out ON DELETE CASCADE,
    number bigint NOT NULL,
    message_id text NOT NULL,
    header bytea NOT NULL,
    body bytea STORAGE EXTERNAL NOT NULL, -- so that a fragment is read without the others
    digest bytea NOT NULL,
    chain bytea NOT NULL,
    replayed boolean NOT NULL DEFAULT FALSE,
    entered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    acked_at timestamptz,
    PRIMARY KEY (stream_id, number)
);
-- A trace finds a message on its way by its id.
CREATE INDEX link_messages_of_ids ON {schema}.link_messages USING hash (message_id);

-- Streams that this box receives. `chain`: at `received`; `begins`: at 0. `part_…`: as the next message was announced
-- with its first fragment.
CREATE TABLE {schema}.link_streams_in (
    link_id integer NOT NULL REFERENCES {schema}.links ON DELETE CASCADE,
    incarnation bigint NOT NULL,
    number bigint NOT NULL,
    destination text NOT NULL,
    key text NOT NULL,
    begins bytea NOT NULL,
    received bigint NOT NULL,
    chain bytea NOT NULL,
    last_used timestamptz NOT NULL DEFAULT now(),
    part_id text,
    part_header bytea,
    part_digest bytea,
    part_size bigint,
    PRIMARY KEY (link_id, incarnation, number)
);

-- Fragments of the next message of a stream, from 0: those that have come.
CREATE TABLE {schema}.link_fragments (
    link_id integer NOT NULL,
    incarnation bigint NOT NULL,
    number bigint NOT NULL,
    fragment integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (link_id, incarnation, number, fragment),
    FOREIGN KEY (link_id, incarnation, number) REFERENCES {schema}.link_streams_in ON DELETE CASCADE
);
