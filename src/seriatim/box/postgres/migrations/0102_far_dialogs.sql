-- Dialogs between boxes. A service without a queue is another box's; its definition says over which links.
ALTER TABLE {schema}.services ALTER COLUMN queue_id DROP NOT NULL;

-- `services`: of the other box, as which it may speak here. `version`: the highest of the protocol that it can read.
ALTER TABLE {schema}.links
ADD COLUMN services text[] NOT NULL DEFAULT '{}', ADD COLUMN version integer NOT NULL DEFAULT 1;

-- A side whose other side is in another box: over which link; the number of the conversation, of the box that began it
-- and of its incarnation, drawn when something leaves; the number that comes next; the chains at both next numbers.
ALTER TABLE {schema}.endpoints
ADD COLUMN link_id integer, ADD COLUMN opened_in bigint, ADD COLUMN number bigint,
ADD COLUMN receive_sequence bigint, ADD COLUMN receive_chain bytea, ADD COLUMN send_chain bytea;
CREATE INDEX endpoints_of_link ON {schema}.endpoints (link_id) WHERE link_id IS NOT NULL;

-- What leaves over a link.
ALTER TABLE {schema}.transmission ADD COLUMN link_id integer;
CREATE INDEX transmission_of_link ON {schema}.transmission (link_id, handle) WHERE link_id IS NOT NULL;

-- Numbers of conversations: of those that this box has begun (`is_ours`), and of those of the other one. `over`: those
-- that never come back.
CREATE TABLE {schema}.conversations (
    link_id integer NOT NULL REFERENCES {schema}.links ON DELETE CASCADE,
    is_ours boolean NOT NULL,
    incarnation bigint NOT NULL CHECK (incarnation > 0),
    highest bigint NOT NULL DEFAULT 0,
    over int8multirange NOT NULL DEFAULT '{}',
    PRIMARY KEY (link_id, is_ours, incarnation)
);

-- What has come for a side and isn't obeyed yet, in order. `said`: its header. `queue_id`: where a message will be.
CREATE TABLE {schema}.dialog_inbox (
    inbox_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    link_id integer NOT NULL REFERENCES {schema}.links ON DELETE CASCADE,
    conversation_id uuid NOT NULL,
    to_initiator boolean NOT NULL,
    queue_id integer,
    said jsonb NOT NULL,
    body bytea NOT NULL DEFAULT '',
    replayed boolean NOT NULL DEFAULT FALSE,
    came_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX dialog_inbox_of_side ON {schema}.dialog_inbox (conversation_id, to_initiator, inbox_id);
CREATE INDEX dialog_inbox_of_queue ON {schema}.dialog_inbox (queue_id) WHERE queue_id IS NOT NULL;

-- What a side says outside its numbers and hasn't left yet: `error`, or `gone`. Each is said once.
CREATE TABLE {schema}.dialog_records (
    link_id integer NOT NULL REFERENCES {schema}.links ON DELETE CASCADE,
    conversation_id uuid NOT NULL,
    is_initiator boolean NOT NULL,
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('error', 'gone')),
    incarnation bigint NOT NULL,
    number bigint NOT NULL,
    code integer NOT NULL,
    why text NOT NULL,
    PRIMARY KEY (link_id, conversation_id, is_initiator, kind)
);

-- A stream of a dialog is asked where its receiver is, although nothing waits; and when that was answered last.
ALTER TABLE {schema}.link_streams_out
ADD COLUMN probes boolean NOT NULL DEFAULT FALSE, ADD COLUMN probed_at timestamptz NOT NULL DEFAULT '-infinity';
CREATE INDEX link_streams_probes ON {schema}.link_streams_out (link_id) WHERE probes;
CREATE INDEX link_streams_of_dialogs ON {schema}.link_streams_out (link_id, last_used) WHERE queue_id = 0;

-- By turns: which of several boxes gets the next dialog.
CREATE SEQUENCE {schema}.far_turns;
