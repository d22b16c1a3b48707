-- The box itself: its schema, the types of its columns, its version, its identity and its settings.

-- What every message passes is checked by domains: the expression of a CHECK is read and compiled anew by each
-- statement, which is a tenth of what a publish costs the server; that of a domain once a session.
CREATE DOMAIN {schema}.zero_or_more AS bigint CHECK (VALUE >= 0);
CREATE DOMAIN {schema}.one_or_more AS bigint CHECK (VALUE >= 1);
CREATE DOMAIN {schema}.priority AS smallint CHECK (VALUE BETWEEN 1 AND 10);
CREATE DOMAIN {schema}.entry_status AS text COLLATE "C"
CHECK (VALUE IN ('arrived', 'held', 'queued', 'in_hand', 'placed', 'faulted'));

-- The migrations that have made the box, each with the SHA-256 of its text, and each set of functions and views that it
-- has had.
CREATE TABLE {schema}.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    checksum text
);

-- The sets of functions and views that the box has had, each by the SHA-256 of its text, with their names; the last one
-- is the present one.
CREATE TABLE {schema}.function_sets (
    set_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    checksum text NOT NULL UNIQUE,
    names text[] NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The id of the box, and the server that it remembers; one row, none before the first open. NULL: not known. `folder`,
-- `folder_inode`: of the embedded PostgreSQL, the inode with its device. `incarnation`: counts how often the box may
-- have gone back in time.
CREATE TABLE {schema}.box_identity (
    is_only boolean PRIMARY KEY DEFAULT TRUE CHECK (is_only),
    box_id uuid NOT NULL,
    incarnation bigint NOT NULL DEFAULT 1 CHECK (incarnation > 0),
    began_at timestamptz NOT NULL DEFAULT now(),
    system_identifier bigint,
    database_oid bigint NOT NULL,
    timeline bigint,
    folder text,
    folder_inode text
);

-- One row, or none where it has the defaults; by the words of the declaration.
CREATE TABLE {schema}.settings (
    single boolean PRIMARY KEY DEFAULT TRUE CHECK (single),
    definition jsonb NOT NULL
);

-- A row for each change of what is declared. Whoever routes knows by the newest whether what it knows is still so. They
-- are numbered from the moment on when the box was made, microseconds: one that is made anew has none that the old one
-- had.
CREATE TABLE {schema}.changes (
    version bigint PRIMARY KEY,
    changed_at timestamptz NOT NULL DEFAULT now(),
    changed_by text NOT NULL DEFAULT session_user,
    what text NOT NULL
);
INSERT INTO {schema}.changes (version, what)
VALUES (1000000 * extract(epoch FROM clock_timestamp()), 'the box was made');

-- What holds for the whole box; one row. `message_ids_for`: how long a message that is published again is recognised.
-- `swept_through`: where the sweep over the tickets was left. `faults_for`, `events_for`: how long faults and events
-- are kept.
CREATE TABLE {schema}.keeping (
    single boolean PRIMARY KEY DEFAULT TRUE CHECK (single),
    message_ids_for interval NOT NULL DEFAULT '7 days' CHECK (message_ids_for > '0'),
    swept_through bigint NOT NULL DEFAULT 0,
    faults_for interval NOT NULL DEFAULT '30 days' CHECK (faults_for >= '0'),
    events_for interval NOT NULL DEFAULT '30 days' CHECK (events_for >= '0')
);
INSERT INTO {schema}.keeping DEFAULT VALUES;

-- How large the tables were, now and then, for a week: what has come since then. Estimates of PostgreSQL's, as the
-- sizes that it is compared with. Written by the clean-up.
CREATE TABLE {schema}.samples (
    taken_at timestamptz NOT NULL DEFAULT now(),
    name text NOT NULL,
    rows bigint NOT NULL,
    size_bytes bigint NOT NULL,
    PRIMARY KEY (taken_at, name)
);
