package setup

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// SweepEvery is how often Sweep is to be called, and swept how many setups it clears.
	SweepEvery   = time.Minute
	swept        = 50
	sweepTimeout = time.Minute
	// keepJails is for how long the logs of a setup's commands are kept, unless the node
	// deletes them before.
	keepJails = 30 * 24 * time.Hour
)

// Sweep ends the setups whose hubs ended, and deletes what setups have left on their nodes:
// their roots at once, and the logs of their commands after keepJails.
func (s *Setups) Sweep(ctx context.Context) error {
	rows, err := s.cfg.Store.LeftImageSetups(ctx, db.LeftImageSetupsParams{Silent: silentFor, MaxRows: swept})
	if err != nil {
		return fmt.Errorf("list the setups of images that left something: %w", err)
	}
	for _, row := range rows {
		if _, err := s.cfg.Store.AbandonImageSetup(ctx, db.AbandonImageSetupParams{OrgID: row.OrgID, ID: row.ID, Error: abandoned, Silent: silentFor}); err != nil {
			return fmt.Errorf("end setup %s: %w", row.ID, err)
		}
		link, err := s.cfg.Node(row.NodeID)
		if err != nil {
			continue // once it is back
		}
		timed, cancel := context.WithTimeout(ctx, sweepTimeout)
		s.discard(timed, row, link)
		cancel()
	}
	return s.removeOld(ctx)
}

// removeOld removes the jails of setups that ended long ago, which have the logs of their
// commands and nothing else.
func (s *Setups) removeOld(ctx context.Context) error {
	rows, err := s.cfg.Store.OldImageSetups(ctx, db.OldImageSetupsParams{Before: time.Now().Add(-keepJails), MaxRows: swept})
	if err != nil {
		return fmt.Errorf("list the setups of images that ended long ago: %w", err)
	}
	byNode := map[string][]db.ImageSetup{}
	for _, row := range rows {
		byNode[row.NodeID] = append(byNode[row.NodeID], row)
	}
	machine.Each(ctx, byNode, s.cfg.Node, sweepTimeout, func(ctx context.Context, link machine.Link, all []db.ImageSetup) {
		for _, row := range all {
			_, err := link.Jails().RemoveJail(ctx, &nodev1.RemoveJailRequest{JailId: row.JailID})
			if err = fault.FromGRPC(err); err == nil {
				err = s.cfg.Store.RemovedImageSetup(ctx, db.RemovedImageSetupParams{OrgID: row.OrgID, ID: row.ID})
			}
			if err != nil {
				s.cfg.Log.Warn("cannot remove the jail of a setup; will try again", "setup_id", row.ID, "jail_id", row.JailID, "node_id", row.NodeID, "error", err)
			}
		}
	})
	return nil
}
