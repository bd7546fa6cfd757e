-- +goose Up

-- Where word of what happens goes. spec is the deckhand.v1.DestinationSpec as
-- protojson.
CREATE TABLE destinations (
    id         text COLLATE "C" PRIMARY KEY,
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    name       text NOT NULL CHECK (name <> ''),
    kind       text NOT NULL CHECK (kind IN ('webhook', 'slack', 'email', 'nats')),
    spec       jsonb NOT NULL,
    state      text NOT NULL DEFAULT 'enabled' CHECK (state IN ('enabled', 'disabled')),
    reason     text NOT NULL DEFAULT '',
    state_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- What messages are signed with, the URL of Slack, or the password for mail.
    sealed     bytea,
    -- The secret's last characters, for people to tell secrets apart.
    hint       text NOT NULL DEFAULT '',
    -- All events up to this place of the commit order have been looked at.
    after_xid  xid8 NOT NULL,
    after_id   bigint NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at timestamptz,
    CHECK (state = 'enabled' OR reason <> ''),
    CHECK (deleted_at IS NULL OR sealed IS NULL)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX destinations_name ON destinations (org_id, name) WHERE deleted_at IS NULL;

-- What is owed to a destination, or was: the outbox and its log in one.
CREATE TABLE notices (
    -- Receivers know a notice that is sent again by it.
    id             text COLLATE "C" PRIMARY KEY,
    org_id         text COLLATE "C" NOT NULL,
    -- Not a reference: a destination's row moves on all the time.
    destination_id text COLLATE "C" NOT NULL,
    -- What it tells of: unique for each destination, so that what is looked at
    -- twice is sent once.
    happening      text NOT NULL CHECK (happening <> ''),
    type           text NOT NULL CHECK (type <> ''),
    task_id        text COLLATE "C" NOT NULL DEFAULT '',
    -- The CloudEvent.
    body           jsonb NOT NULL,
    state          text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'dead')),
    -- How often it was sent, and how that went: objects with at, status, error
    -- and ms.
    attempts       int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    tries          jsonb NOT NULL DEFAULT '[]',
    error          text NOT NULL DEFAULT '',
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- While it is being sent: when another hub may take it for lost.
    next_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at     timestamptz NOT NULL,
    handled_at     timestamptz,
    UNIQUE (destination_id, happening),
    CHECK ((state = 'pending') = (handled_at IS NULL))
);
CREATE INDEX notices_due ON notices (destination_id, next_at, id) WHERE state = 'pending';
CREATE INDEX notices_newest ON notices (org_id, destination_id, created_at DESC, id DESC);
CREATE INDEX notices_old ON notices (handled_at) WHERE state <> 'pending';

-- +goose Down
DROP TABLE notices, destinations;
