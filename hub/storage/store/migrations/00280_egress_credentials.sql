-- +goose Up
-- Credentials that a node's egress proxy, or the hub, inserts into requests of agents'
-- commands.
CREATE TABLE egress_credentials (
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    name       text COLLATE "C" NOT NULL CHECK (name <> ''),
    kind       text COLLATE "C" NOT NULL CHECK (kind IN ('bearer', 'basic', 'header', 'query', 'github_app', 'gitlab', 'oauth2_client', 'aws_sigv4')),
    -- What requests it is for: exact names or addresses, none for port 443, none for all
    -- methods, none for all paths.
    hosts      text[] NOT NULL CHECK (cardinality(hosts) > 0),
    ports      int[] NOT NULL,
    methods    text[] NOT NULL,
    paths      text[] NOT NULL,
    -- The hosts may be in private networks.
    private    boolean NOT NULL,
    -- Names of the agents that may use it; * for all.
    agents     text[] NOT NULL,
    -- What its kind needs besides the value; nothing of it is secret.
    settings   jsonb NOT NULL,
    -- A variable that commands get with a placeholder; empty for none.
    variable   text NOT NULL,
    -- Certificates, in PEM, by which the hosts are verified; empty for the usual ones.
    roots      text NOT NULL,
    -- The value.
    sealed     bytea NOT NULL,
    -- Another one with each value.
    version    text COLLATE "C" NOT NULL,
    expires_at timestamptz,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    rotated_by text NOT NULL,
    rotated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, name)
);

-- Requests with a credential.
CREATE TABLE credential_requests (
    org_id         text COLLATE "C" NOT NULL REFERENCES organisations (id),
    -- The node's id and its own id of the request.
    id             text COLLATE "C" NOT NULL,
    credential     text COLLATE "C" NOT NULL,
    node_id        text COLLATE "C" NOT NULL,
    jail_id        text COLLATE "C" NOT NULL,
    -- As the request says; empty if it says none.
    exec_id        text COLLATE "C" NOT NULL,
    -- NULL where they are not known.
    task_id        text COLLATE "C" REFERENCES tasks (id),
    step_id        text COLLATE "C",
    method         text NOT NULL,
    host           text NOT NULL,
    path           text NOT NULL,
    -- 0 if the server did not respond.
    status         int NOT NULL,
    sent_bytes     bigint NOT NULL,
    received_bytes bigint NOT NULL,
    at             timestamptz NOT NULL,
    duration       interval NOT NULL,
    problem        text NOT NULL,
    stored_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, id)
);
CREATE INDEX credential_requests_newest ON credential_requests (org_id, at DESC, id DESC);
CREATE INDEX credential_requests_of_credential ON credential_requests (org_id, credential, at DESC, id DESC);
CREATE INDEX credential_requests_of_task ON credential_requests (task_id, at DESC, id DESC) WHERE task_id IS NOT NULL;
CREATE INDEX credential_requests_stored ON credential_requests (stored_at);

-- Requests with credentials are of the tasks that a jail has now; a node may report those of
-- tasks that have ended. No update of a running task changes these columns.
CREATE INDEX tasks_in_jail ON tasks (jail_id) WHERE finished_at IS NULL;
CREATE INDEX tasks_of_jail ON tasks (jail_id, node_id);

-- +goose Down
DROP INDEX tasks_of_jail, tasks_in_jail;
DROP TABLE credential_requests, egress_credentials;
