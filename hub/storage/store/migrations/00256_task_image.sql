-- +goose Up
-- The image that a task's jail is made from: as the persona named it when it was
-- resolved, and the digest that it had then. Empty until the first attempt resolves
-- it, and for a jail of the machine's own system folders.
ALTER TABLE tasks
    ADD COLUMN image text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN image_digest text NOT NULL DEFAULT '',
    ADD CONSTRAINT tasks_image_pinned CHECK ((image = '') = (image_digest = ''));

-- +goose Down
ALTER TABLE tasks DROP CONSTRAINT tasks_image_pinned, DROP COLUMN image_digest, DROP COLUMN image;
