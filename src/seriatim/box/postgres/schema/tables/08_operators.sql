-- What operators do, and what handlers fail at.

-- What operators have done, and why. Rows are only added.
CREATE TABLE {schema}.operator_log (
    operation_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL CHECK (length(actor) BETWEEN 1 AND 256),
    action text NOT NULL,
    queue text COLLATE "C",
    group_key text COLLATE "C",
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 4096),
    details jsonb NOT NULL DEFAULT '{}',
    -- Who had logged in; `actor` is what somebody says.
    role text DEFAULT session_user
);
CREATE INDEX operator_log_of_group ON {schema}.operator_log (queue, group_key, operation_id);

CREATE TRIGGER only_added BEFORE UPDATE OR DELETE OR TRUNCATE ON {schema}.operator_log
FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_change();
ALTER TABLE {schema}.operator_log ENABLE ALWAYS TRIGGER only_added;

-- What handlers failed at: a row each time. Rows are only added. `kind`: transient (retry helps), business (it
-- doesn't), unexpected (an exception of which nobody has said whether it passes), bug (an error in the code of the
-- handler itself), poison (its worker died of it) or timeout (the turn took too long). `retry_at`: when it is tried
-- again by itself.
CREATE TABLE {schema}.faults (
    fault_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    entry_id bigint NOT NULL,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    message_id text NOT NULL,
    type text NOT NULL,
    sequence bigint,
    ordinal bigint,
    attempt integer NOT NULL CHECK (attempt > 0),
    kind text NOT NULL CHECK (kind IN ('transient', 'business', 'unexpected', 'bug', 'poison', 'timeout')),
    error_class text NOT NULL,
    error text NOT NULL,
    traceback text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    worker text NOT NULL,
    retry_at timestamptz
);
CREATE INDEX faults_of_group ON {schema}.faults (queue_id, group_key, fault_id);
CREATE INDEX faults_of_entry ON {schema}.faults (entry_id);
CREATE INDEX faults_of_message ON {schema}.faults (message_id);

-- What operators have put in the place of bodies and properties. Of an entry the newest of each counts; NULL: that edit
-- left it as it was. What was published stays in the spool.
CREATE TABLE {schema}.edits (
    entry_id bigint NOT NULL,
    edit_id bigint GENERATED ALWAYS AS IDENTITY,
    body bytea,
    edited_at timestamptz NOT NULL DEFAULT now(),
    edited_by text NOT NULL,
    context jsonb,
    property_types jsonb,
    arrival_id bigint,
    position integer,
    CONSTRAINT edits_edited_check CHECK (body IS NOT NULL OR context IS NOT NULL),
    PRIMARY KEY (entry_id, edit_id)
);
-- Who looks for messages by a property finds them by what an operator has put there, too.
CREATE INDEX edits_of_message ON {schema}.edits (arrival_id, position) WHERE context IS NOT NULL;

-- `filter`: what the groups were chosen by, for people. `queue_ids`: the queues of its groups. `gathered_at`: when the
-- groups were seen. `begun_at`: when somebody confirmed it; NULL: nothing is done yet. `moved_at`: when the last
-- portion was done. `ended_at`: it is over; with `cancelled_by` before all were done. The rows of its groups say what
-- became of each; the counts are sums of them.
CREATE TABLE {schema}.bulk_operations (
    bulk_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action text NOT NULL CHECK (length(action) BETWEEN 1 AND 64),
    at_once boolean NOT NULL,
    filter jsonb NOT NULL,
    actor text NOT NULL CHECK (length(actor) BETWEEN 1 AND 256),
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 4096),
    role text NOT NULL DEFAULT session_user,
    queue_ids integer[] NOT NULL,
    gathered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    begun_at timestamptz,
    moved_at timestamptz,
    ended_at timestamptz,
    cancelled_by text,
    cancelled_because text,
    groups {schema}.zero_or_more NOT NULL DEFAULT 0,
    done {schema}.zero_or_more NOT NULL DEFAULT 0,
    refused {schema}.zero_or_more NOT NULL DEFAULT 0,
    changed {schema}.zero_or_more NOT NULL DEFAULT 0
);
CREATE INDEX bulk_operations_open ON {schema}.bulk_operations (bulk_id) WHERE begun_at IS NOT NULL AND ended_at IS NULL;

-- `seen`: a digest of the group as it was seen. `alone`: it is acted on by itself, since it was locked, or the action
-- needs that. `result`: NULL: not yet. `why`: why it was refused, or what has changed. `operation_id`: its entry in the
-- operator log.
CREATE TABLE {schema}.bulk_groups (
    bulk_id bigint NOT NULL REFERENCES {schema}.bulk_operations ON DELETE CASCADE,
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    seen text NOT NULL CHECK (length(seen) BETWEEN 1 AND 64),
    alone boolean NOT NULL DEFAULT FALSE,
    result text CHECK (result IN ('done', 'refused', 'changed')),
    why text,
    operation_id bigint,
    PRIMARY KEY (bulk_id, queue_id, group_key)
);
CREATE INDEX bulk_groups_left ON {schema}.bulk_groups (bulk_id, alone, queue_id, group_key) WHERE result IS NULL;
CREATE INDEX bulk_groups_not_done ON {schema}.bulk_groups (bulk_id, queue_id, group_key) WHERE result <> 'done';
