-- Requests that wait for replies. `request_id`: the correlation that the request carries; nobody who hasn't seen the
-- request knows it. `correlation_id`: what the message in hand belonged to. `role`: who asked, and may read the replies; `asker`: for whom, where a role asks
-- for several, '': for itself.
CREATE TABLE {schema}.open_requests (
    request_id text COLLATE "C" PRIMARY KEY CHECK (request_id ~ '^request-[0-9a-f]{32}$'),
    role text COLLATE "C" NOT NULL,
    asker text COLLATE "C" NOT NULL,
    message_id text NOT NULL,
    id_space text COLLATE "C" NOT NULL,
    reply_type text NOT NULL,
    correlation_id text,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    until timestamptz NOT NULL
);
CREATE INDEX open_requests_of_message ON {schema}.open_requests (message_id, id_space);
CREATE INDEX open_requests_by_end ON {schema}.open_requests (until);

-- The replies to requests: messages. `entry_id`: 0; or the request itself was set aside, as this entry.
CREATE TABLE {schema}.replies (
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    request_id text COLLATE "C" NOT NULL REFERENCES {schema}.open_requests ON DELETE CASCADE,
    entry_id bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (arrival_id, position, request_id, entry_id)
);
CREATE INDEX replies_of_request ON {schema}.replies (request_id);

CREATE TRIGGER note_dropped AFTER DELETE ON {schema}.replies
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_dropped();
ALTER TABLE {schema}.replies ENABLE ALWAYS TRIGGER note_dropped;

CREATE CONSTRAINT TRIGGER call_askers AFTER INSERT ON {schema}.replies
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.call_askers();
ALTER TABLE {schema}.replies ENABLE ALWAYS TRIGGER call_askers;

CREATE TRIGGER tell_asker AFTER INSERT ON {schema}.aside
REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION {schema}.tell_asker();
ALTER TABLE {schema}.aside ENABLE ALWAYS TRIGGER tell_asker;
