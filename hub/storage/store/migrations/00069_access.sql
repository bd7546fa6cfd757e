-- +goose Up

-- From where calls of an organisation may come: what is "*", "admin", a service
-- or Service/Method.
CREATE TABLE access_rules (
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    what       text COLLATE "C" NOT NULL,
    networks   text[] NOT NULL CHECK (networks <> '{}'),
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, what)
);

-- +goose Down

DROP TABLE access_rules;
