-- +goose Up
-- A call that waits for its run to be accepted is deferred: a hold is something else.
ALTER TABLE steps DROP CONSTRAINT steps_state_check, ADD CONSTRAINT steps_state_check CHECK (state IN (
    'proposed', 'denied', 'waiting', 'granted', 'started', 'succeeded', 'failed', 'unknown', 'skipped', 'cancelled', 'deferred', 'held'));
INSERT INTO transitions (object, from_state, to_state) VALUES
    ('step', 'deferred', 'started'), ('step', 'deferred', 'denied'), ('step', 'deferred', 'skipped'), ('step', 'deferred', 'cancelled'),
    ('step', 'held', 'deferred');
UPDATE steps SET state = 'deferred' WHERE state = 'held';
DELETE FROM transitions WHERE object = 'step' AND from_state = 'held';
ALTER TABLE steps DROP CONSTRAINT steps_state_check, ADD CONSTRAINT steps_state_check CHECK (state IN (
    'proposed', 'denied', 'waiting', 'granted', 'started', 'succeeded', 'failed', 'unknown', 'skipped', 'cancelled', 'deferred'));

-- +goose Down
ALTER TABLE steps DROP CONSTRAINT steps_state_check, ADD CONSTRAINT steps_state_check CHECK (state IN (
    'proposed', 'denied', 'waiting', 'granted', 'started', 'succeeded', 'failed', 'unknown', 'skipped', 'cancelled', 'deferred', 'held'));
INSERT INTO transitions (object, from_state, to_state) VALUES
    ('step', 'held', 'started'), ('step', 'held', 'denied'), ('step', 'held', 'skipped'), ('step', 'held', 'cancelled'),
    ('step', 'deferred', 'held');
UPDATE steps SET state = 'held' WHERE state = 'deferred';
DELETE FROM transitions WHERE object = 'step' AND from_state = 'deferred';
ALTER TABLE steps DROP CONSTRAINT steps_state_check, ADD CONSTRAINT steps_state_check CHECK (state IN (
    'proposed', 'denied', 'waiting', 'granted', 'started', 'succeeded', 'failed', 'unknown', 'skipped', 'cancelled', 'held'));
