-- +goose Up

-- Pictures of what was acted on, which the model does not get, and where in them that is: left,
-- top, width and height in pixels.
ALTER TABLE step_images
    ADD COLUMN for_people boolean NOT NULL DEFAULT false,
    ADD COLUMN mark int[] CHECK (cardinality(mark) = 4);

-- +goose Down
ALTER TABLE step_images DROP COLUMN mark, DROP COLUMN for_people;
