package lease

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/store"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Worker is a worker as it presents itself.
type Worker struct {
	// ID is that of an earlier registration, or empty.
	ID      string
	Name    string
	Pool    string
	Slots   int32
	Version string
}

// Register makes a worker known and answers its id.
func (l *Leases) Register(ctx context.Context, orgID string, w Worker) (string, error) {
	id := w.ID
	if id != "" {
		_, err := l.cfg.Store.GetWorker(ctx, db.GetWorkerParams{OrgID: orgID, ID: id})
		if store.IsNotFound(err) {
			return "", fault.New(fault.NotFound, "there is no worker %q to take up again", id).
				WithFix("register without worker_id").WithObject(id)
		}
		if err != nil {
			return "", fmt.Errorf("load worker %s: %w", id, err)
		}
	} else {
		id = ident.New("worker")
	}
	if err := l.cfg.Store.RegisterWorker(ctx, db.RegisterWorkerParams{
		ID: id, OrgID: orgID, Name: w.Name, Pool: w.Pool, Slots: w.Slots, Version: w.Version,
	}); err != nil {
		return "", fmt.Errorf("store worker %s: %w", w.Name, err)
	}
	return id, nil
}
