-- What is declared.

-- What messages may look like: promoted properties, and how a body is checked; by the words of the declaration.
CREATE TABLE {schema}.types (
    type text COLLATE "C" PRIMARY KEY CHECK (length(type) BETWEEN 1 AND 128),
    definition jsonb NOT NULL
);

-- Named, ordered destinations. `owner`: the pipeline that a queue belongs to, if it is one's. `incarnation`: that of a
-- group which isn't known; higher than any of a group that was forgotten and left no row.
CREATE TABLE {schema}.queues (
    queue_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text COLLATE "C" NOT NULL UNIQUE CHECK (length(queue) BETWEEN 1 AND 128),
    definition jsonb NOT NULL,
    enabled boolean NOT NULL DEFAULT TRUE,
    owner text,
    incarnation integer NOT NULL DEFAULT 0,
    -- Whether readers are started, where its definition says what they do.
    activated boolean NOT NULL DEFAULT TRUE
);

CREATE TRIGGER drop_region_queue AFTER DELETE ON {schema}.queues
FOR EACH ROW EXECUTE FUNCTION {schema}.drop_region_queue();
ALTER TABLE {schema}.queues ENABLE ALWAYS TRIGGER drop_region_queue;

-- Who wants which messages.
CREATE TABLE {schema}.known_subscriptions (
    subscription_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription text COLLATE "C" NOT NULL UNIQUE CHECK (length(subscription) BETWEEN 1 AND 128),
    queue_id integer NOT NULL REFERENCES {schema}.queues,
    definition jsonb NOT NULL,
    state text NOT NULL DEFAULT 'started' CHECK (state IN ('started', 'stopped', 'enlisted', 'unenlisted')),
    -- The role by whose right it was made; NULL: it is the owner's. It matches messages of the types only that this
    -- role is granted, and gives nobody who publishes anything to ask for.
    subscriber regrole
);
CREATE INDEX subscriptions_not_started ON {schema}.known_subscriptions (queue_id) WHERE state <> 'started';

-- `next_at`: the due time that comes next, NULL: none any more. It moves in the transaction that publishes, under the
-- lock of the row: so each due time gives its message once, whoever looks. `last_at`: the due time of the last message,
-- `last_message`: its id, `published_at`: when that was. `failed_at`, `error`: why nothing could be published, and
-- since when; `look_at`: it is tried again from then on. `paused_at`, `paused_by`: it is paused.
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

-- What is set for a queue; NULL: not set, and each process does as it was started. `workers`: threads in each process
-- of `seriatim work`, readers of `seriatim serve` in all. `in_flight`: groups that are worked on at once, and `rate`:
-- messages a second, of all processes together. `run_length`: messages of a group in one transaction.
CREATE TABLE {schema}.queue_settings (
    queue_id integer PRIMARY KEY REFERENCES {schema}.queues ON DELETE CASCADE,
    workers integer CHECK (workers BETWEEN 1 AND 1000),
    in_flight integer CHECK (in_flight BETWEEN 1 AND 100000),
    rate double precision CHECK (rate > 0 AND rate < 1e9),
    run_length integer CHECK (run_length BETWEEN 1 AND 100000),
    set_by text NOT NULL,
    set_at timestamptz NOT NULL DEFAULT now()
);
