package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deckhand-sh/deckhand/hub/maintenance/restore"
	"github.com/deckhand-sh/deckhand/hub/storage/leader"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Adopted is what Adopt did.
type Adopted struct {
	restore.Begun
	// Until is the time of the newest event that the database has, or restore.Unknown.
	Until time.Time
}

// Adopt prepares a database that lacks the last changes, in its place: a standby that was
// promoted, or one that PostgreSQL's own means restored. As after Restore, nodes are asked for
// what the database does not know, and nothing is executed twice. No hub may run on it.
func Adopt(ctx context.Context, url config.Secret) (out Adopted, err error) {
	conn, _, err := connect(ctx, url)
	if err != nil {
		return out, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := store.TakesWrites(ctx, conn); err != nil {
		return out, err
	}
	if _, err := schemaOf(ctx, conn); err != nil {
		return out, err
	}
	// What a restore has left is not whole, and no adoption makes it so.
	op, err := store.UnfinishedOn(ctx, conn)
	if err != nil {
		return out, err
	}
	if op != store.Adopting {
		if err := op.Refuse(); err != nil {
			return out, err
		}
	}
	free, err := leader.Take(ctx, conn)
	if err != nil {
		return out, err
	}
	// Hubs that wait for a leader have sessions and no lock.
	sessions, err := store.Sessions(ctx, conn)
	if err != nil {
		return out, err
	}
	if !free || sessions > 0 {
		return out, fault.New(fault.Precondition, "a hub runs on this database").WithFix("stop all hubs first")
	}
	err = conn.QueryRow(ctx, "SELECT time FROM events ORDER BY id DESC LIMIT 1").Scan(&out.Until)
	if errors.Is(err, pgx.ErrNoRows) {
		out.Until = restore.Unknown
	} else if err != nil {
		return out, fmt.Errorf("read the newest event: %w", err)
	}
	if err := restore.CheckClock(out.Until); err != nil {
		return out, err
	}
	// No hub starts on the database from here until finish.
	if err := store.BeginUnfinished(ctx, conn, store.Adopting); err != nil {
		return out, err
	}
	if out.Begun, err = begin(ctx, url, restore.Backup{Kind: restore.FromDatabase, ID: ident.New("adopted"), TakenAt: out.Until}); err != nil {
		return out, err
	}
	// One that has run all the time may have connected since.
	if err := noSession(ctx, conn); err != nil {
		return out, err
	}
	return out, finish(ctx, url)
}

const (
	// sessionTries is how often sessions are counted before they are taken for those of a hub,
	// and sessionPause is the time between: those of this process take a moment to end.
	sessionTries = 20
	sessionPause = 100 * time.Millisecond
)

// noSession refuses a database to which a hub has connected.
func noSession(ctx context.Context, conn *pgx.Conn) error {
	for range sessionTries {
		n, err := store.Sessions(ctx, conn)
		if err != nil || n == 0 {
			return err
		}
		if err := backoff.Wait(ctx, sessionPause); err != nil {
			return err
		}
	}
	return fault.New(fault.Precondition, "a hub connected to this database while it was adopted").
		WithFix("stop all hubs, and run deckhand backup adopt again")
}
