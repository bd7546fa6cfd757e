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
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Adopted is what Adopt did.
type Adopted struct {
	restore.Begun
	// Until is the time of the newest event that the database has.
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
	if _, err := schemaOf(ctx, conn); err != nil {
		return out, err
	}
	free, err := leader.Take(ctx, conn)
	if err != nil {
		return out, err
	}
	if !free {
		return out, fault.New(fault.Precondition, "a hub runs on this database").WithFix("stop all hubs first")
	}
	err = conn.QueryRow(ctx, "SELECT time FROM events ORDER BY id DESC LIMIT 1").Scan(&out.Until)
	if errors.Is(err, pgx.ErrNoRows) {
		out.Until = time.Now()
	} else if err != nil {
		return out, fmt.Errorf("read the newest event: %w", err)
	}
	// No hub starts on the database from here until finish.
	if _, err := conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+store.Unfinished+" ()"); err != nil {
		return out, fmt.Errorf("record that the adoption has begun: %w", err)
	}
	if out.Begun, err = begin(ctx, url, Manifest{ID: ident.New("adopted"), TakenAt: out.Until}); err != nil {
		return out, err
	}
	return out, finish(ctx, url)
}
