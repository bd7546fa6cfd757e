-- +goose Up

-- Pictures that calls answered, for models that take them.
CREATE TABLE step_images (
    org_id     text COLLATE "C" NOT NULL REFERENCES organisations (id),
    step_id    text COLLATE "C" NOT NULL REFERENCES steps (id),
    task_id    text COLLATE "C" NOT NULL REFERENCES tasks (id),
    -- Its place among those of the step, from 0.
    place      int NOT NULL CHECK (place BETWEEN 0 AND 3),
    media_type text NOT NULL CHECK (media_type IN ('image/png', 'image/jpeg', 'image/gif', 'image/webp')),
    data       bytea NOT NULL CHECK (octet_length(data) BETWEEN 1 AND 2097152),
    PRIMARY KEY (step_id, place)
);
CREATE INDEX step_images_of_task ON step_images (task_id);

-- +goose Down
DROP TABLE step_images;
