package agent

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// maxTaskJails bounds TaskJails: more tasks of an organisation do not run at once.
const maxTaskJails = 10_000

// TaskJails returns the names of the agents that v sees by the jails of their live tasks,
// of tasks that have a jail of their own.
func (s *Service) TaskJails(ctx context.Context, v visibility.Viewer) (map[string]string, error) {
	rows, err := s.store.LiveTaskJails(ctx, db.LiveTaskJailsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, MaxRows: maxTaskJails})
	if err != nil {
		return nil, fmt.Errorf("find the jails of live tasks: %w", err)
	}
	out := make(map[string]string, len(rows))
	for _, row := range rows {
		out[row.JailID] = row.Name
	}
	return out, nil
}
