-- +goose Up
-- What is sent to a destination is a notification, by one word everywhere.
ALTER TABLE notices RENAME TO notifications;
ALTER INDEX notices_pkey RENAME TO notifications_pkey;
ALTER INDEX notices_due RENAME TO notifications_due;
ALTER INDEX notices_newest RENAME TO notifications_newest;
ALTER INDEX notices_old RENAME TO notifications_old;
ALTER INDEX notices_open RENAME TO notifications_open;

-- +goose Down
ALTER TABLE notifications RENAME TO notices;
ALTER INDEX notifications_pkey RENAME TO notices_pkey;
ALTER INDEX notifications_due RENAME TO notices_due;
ALTER INDEX notifications_newest RENAME TO notices_newest;
ALTER INDEX notifications_old RENAME TO notices_old;
ALTER INDEX notifications_open RENAME TO notices_open;
