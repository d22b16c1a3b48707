-- Dialogs: conversations of two services, each message an entry of the receiver's queue, in the group of its side.
--
-- A side writes its own row, and takes a KEY SHARE lock on the other one's while it sends; so both send at once. Who
-- ends takes both rows FOR UPDATE, in the order of their handles, and so waits until nobody sends. The lock of the
-- group comes first, which a turn has. What a verb does in a state is in kernel/dialog.py; `dialog_rules` has the same
-- rows.

-- Which messages a dialog carries, and who sends each. Rows are never changed.
CREATE TABLE {schema}.contracts (
    contract text COLLATE "C" PRIMARY KEY CHECK (length(contract) BETWEEN 1 AND 128),
    definition jsonb NOT NULL
);
INSERT INTO {schema}.contracts (contract, definition)
VALUES ('DEFAULT', '{"version": 1, "name": "DEFAULT", "types": {"DEFAULT": "any"}}');

-- The ends of dialogs.
CREATE TABLE {schema}.services (
    service text COLLATE "C" PRIMARY KEY CHECK (length(service) BETWEEN 1 AND 128),
    queue_id integer NOT NULL REFERENCES {schema}.queues,
    definition jsonb NOT NULL
);
CREATE INDEX services_of_queue ON {schema}.services (queue_id);

-- What a verb does to a side in a state: the state afterwards, the message that comes of it, or why it is refused.
CREATE TABLE {schema}.dialog_rules (
    verb text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    becomes text COLLATE "C" NOT NULL,
    tells text,
    refusal text,
    PRIMARY KEY (verb, state)
);

-- The sides of dialogs. `to_services`: the other side's service; of a monolog all of them. `send_sequence`: the number
-- that it sends next. `begun_by`: who made it needs no lock for it. `due_at`: when its timer or its lifetime ends.
CREATE TABLE {schema}.endpoints (
    handle uuid PRIMARY KEY,
    conversation_id uuid NOT NULL,
    is_initiator boolean NOT NULL,
    is_monolog boolean NOT NULL DEFAULT FALSE,
    service text COLLATE "C" NOT NULL,
    queue_id integer NOT NULL REFERENCES {schema}.queues,
    to_services text[] COLLATE "C" NOT NULL,
    contract text COLLATE "C" NOT NULL,
    group_id uuid NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state IN ('SO', 'SI', 'CO', 'DI', 'DO', 'ER', 'CD')),
    priority smallint NOT NULL CHECK (priority BETWEEN 1 AND 10),
    encryption boolean NOT NULL,
    retains boolean NOT NULL,
    send_sequence bigint NOT NULL DEFAULT 0,
    begun_by xid8 NOT NULL DEFAULT pg_current_xact_id(),
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at timestamptz,
    expires_at timestamptz,
    timer_at timestamptz,
    due_at timestamptz GENERATED ALWAYS AS (least(timer_at, expires_at)) STORED,
    error_code integer,
    error text,
    -- Of a side whose other side is gone: the number that would have come next. What waits to be delivered hasn't come.
    far_sent bigint,
    UNIQUE (conversation_id, is_initiator, service)
) WITH (fillfactor = 70);
CREATE INDEX endpoints_due ON {schema}.endpoints (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX endpoints_closed ON {schema}.endpoints (closed_at) WHERE closed_at IS NOT NULL;
CREATE INDEX endpoints_of_group ON {schema}.endpoints (queue_id, group_id);
CREATE INDEX endpoints_of_contract ON {schema}.endpoints (contract);
-- For pages, which list dialogs by their age.
CREATE INDEX endpoints_by_age ON {schema}.endpoints (began_at, handle);

-- Triggers go by their names: this one before those that delete what waits to be delivered ("RI_…").
CREATE TRIGGER "KEEP_SEQUENCE" AFTER DELETE ON {schema}.endpoints
FOR EACH ROW EXECUTE FUNCTION {schema}.keep_sequence();
ALTER TABLE {schema}.endpoints ENABLE ALWAYS TRIGGER "KEEP_SEQUENCE";

CREATE TRIGGER drop_side AFTER DELETE ON {schema}.endpoints
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.drop_side();
ALTER TABLE {schema}.endpoints ENABLE ALWAYS TRIGGER drop_side;

-- What can't be delivered yet, because the other side isn't there; in order.
CREATE TABLE {schema}.transmission (
    transmission_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    handle uuid NOT NULL REFERENCES {schema}.endpoints ON DELETE CASCADE,
    to_service text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    content_type text,
    body bytea NOT NULL,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX transmission_of_service ON {schema}.transmission (to_service, handle, transmission_id);
CREATE INDEX transmission_of_dialog ON {schema}.transmission (handle);

-- The messages of dialogs whose service keeps them, until it ends. `message_id`: of one that came.
CREATE TABLE {schema}.dialog_messages (
    history_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    handle uuid NOT NULL REFERENCES {schema}.endpoints ON DELETE CASCADE,
    sent boolean NOT NULL,
    sequence bigint,
    type text COLLATE "C" NOT NULL,
    content_type text,
    body bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    message_id text
);
CREATE INDEX dialog_messages_of_dialog ON {schema}.dialog_messages (handle, history_id);

-- Of a group of a service's queue: which message was rolled back last, how often in a row, and by which transaction
-- last (the 32 bits that a row says): none counts twice. Written in transactions apart, or it would be rolled back,
-- too.
CREATE TABLE {schema}.rollbacks (
    queue_id integer NOT NULL REFERENCES {schema}.queues ON DELETE CASCADE,
    group_key text COLLATE "C" NOT NULL,
    entry_id bigint NOT NULL,
    times integer NOT NULL,
    last_by bigint NOT NULL,
    PRIMARY KEY (queue_id, group_key)
);
