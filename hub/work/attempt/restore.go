package attempt

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// wentBack is how the workspace of a run that failed went back to a checkpoint.
type wentBack struct {
	done bool
	// refused is why it stays as it is; nil if it does not.
	refused *fault.Error
}

type wentBackKey struct{}

// goBack brings the workspace of a run that has failed back to the checkpoint that its persona
// names, and returns what the task's reason says of it; "" if the persona names none. The
// run's lease keeps others out of the workspace meanwhile. A node that cannot be reached
// leaves the files as they are: the run's end does not wait for it.
func (r *Reports) goBack(ctx context.Context, tx *event.Tx, t db.Task) (string, error) {
	p, err := r.cfg.Agents.PersonaOf(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return "", err
	}
	name := p.Workspace.RestoreOnFailure
	if name == "" || t.NodeID == nil {
		return "", nil
	}
	back := event.Keep(tx, wentBackKey{}, func() *wentBack { return &wentBack{} })
	if !back.done {
		return "", &event.Outside{Do: func(ctx context.Context) error {
			back.done = true
			err := r.cfg.AfterFailure(ctx, t, name)
			if err == nil {
				return nil
			}
			if ctx.Err() != nil {
				return fmt.Errorf("bring the workspace of %s back to checkpoint %q: %w", t.ID, name, err)
			}
			// Whatever it is, the run has ended.
			if back.refused = fault.As(fault.FromGRPC(err)); back.refused == nil {
				back.refused = fault.New(fault.Internal, "%s", err)
			}
			return nil
		}}
	}
	if back.refused != nil {
		return fmt.Sprintf("; its files stay as they are, because they could not go back to checkpoint %q: %s", name, back.refused.Message), nil
	}
	return fmt.Sprintf("; its files are as they were at checkpoint %q", name), nil
}
