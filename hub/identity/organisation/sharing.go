package organisation

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// TasksShared reports whether everybody who sees an agent of an organisation sees its
// tasks. Otherwise a task is seen by its submitter, its assignee, the owners of its agent
// and administrators.
func (s *Service) TasksShared(ctx context.Context, orgID string) (bool, error) {
	org, err := s.store.OrganisationByID(ctx, orgID)
	if err != nil {
		return false, fmt.Errorf("load organisation %s: %w", orgID, err)
	}
	return org.TasksShared, nil
}

// ShareTasks says whether an organisation shares its tasks. It holds at once, for tasks
// that have ended as well.
func (s *Service) ShareTasks(ctx context.Context, orgID string, shared bool, by event.Actor) error {
	return s.recorder.Tx(ctx, func(tx *event.Tx) error {
		was, err := tx.OrganisationByID(ctx, orgID)
		if err != nil {
			return fmt.Errorf("load organisation %s: %w", orgID, err)
		}
		if was.TasksShared == shared {
			return nil
		}
		if err := tx.SetTasksShared(ctx, db.SetTasksSharedParams{ID: orgID, Shared: shared}); err != nil {
			return fmt.Errorf("set whether organisation %s shares its tasks: %w", orgID, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "organisation.tasks_shared", ObjectKind: "organisation", ObjectID: orgID,
			Before: map[string]any{"shared": was.TasksShared}, After: map[string]any{"shared": shared},
		})
	})
}
