package step

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/inbox/filechange"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// The person who decides about a call of a file tool sees what it would do to the workspace.
// The hub looks when it asks, so that the card shows it also when the node is away, and again
// when the jail is frozen and its workspace is recorded: what the agent's own processes wrote
// in between is in it then. An approval is for the changes that were shown (their digest is
// among what inbox.ShownDigest covers).

// fileChanges returns what a call of a file tool would do. Within a transaction it returns an
// event.Outside if the node must be asked first. It returns nil for other tools.
func (s *Steps) fileChanges(ctx context.Context, l *looks, t db.Task, tool string, arguments map[string]any, raw []byte) (*inbox.FileChanges, error) {
	if !slices.Contains(filechange.Tools(), tool) {
		return nil, nil
	}
	of := inspectedCall{t.JailID, tool, digest(raw)}
	look := func(ctx context.Context) {
		if l.changes == nil {
			l.changes = map[inspectedCall]*inbox.FileChanges{}
		}
		l.within(ctx, func(ctx context.Context) { l.changes[of] = s.lookAtFiles(ctx, t, tool, arguments) })
	}
	if _, ok := l.changes[of]; !ok && l.ask {
		look(ctx)
	} else if !ok {
		if err := l.later(look); err != nil {
			return nil, err
		}
	}
	if c, ok := l.changes[of]; ok {
		return c, nil
	}
	return &inbox.FileChanges{Unknown: "the node was not asked"}, nil
}

// lookAtFiles asks the node. Secrets in the result are masked.
func (s *Steps) lookAtFiles(ctx context.Context, t db.Task, tool string, arguments map[string]any) *inbox.FileChanges {
	found, err := s.filesOf(ctx, t, tool, arguments)
	if err != nil {
		s.cfg.Log.Info("what a call would do to files cannot be found out", "task_id", t.ID, "tool", tool, "error", err)
		unknown := "the node did not respond"
		switch e := fault.As(err); {
		case e != nil && e.Kind == fault.Unavailable && t.NodeID != nil:
			unknown = "the node is not connected"
		case e != nil && e.Kind != fault.Internal && e.Kind != fault.Deadline:
			unknown = e.Message
		}
		return &inbox.FileChanges{Unknown: s.cfg.Redact.Org(t.OrgID).String(unknown)}
	}
	mask := s.cfg.Redact.Org(t.OrgID).String
	for i := range found {
		c := &found[i]
		c.Path, c.To, c.Unified, c.Problem = mask(c.Path), mask(c.To), mask(c.Unified), mask(c.Problem)
		for j := range c.Entries {
			c.Entries[j].Path = mask(c.Entries[j].Path)
		}
	}
	return &inbox.FileChanges{Changes: found}
}

func (s *Steps) filesOf(ctx context.Context, t db.Task, tool string, arguments map[string]any) ([]filechange.Change, error) {
	if t.NodeID == nil {
		return nil, fault.New(fault.NotFound, "the task has no node yet")
	}
	node, err := s.cfg.Node(*t.NodeID)
	if err != nil {
		return nil, err
	}
	return filechange.Looker{Files: node.Files(), JailID: t.JailID}.Look(ctx, tool, arguments)
}

// lookAgainAtFiles looks at what the waiting calls of a task would do to its workspace, and
// stores it with their items. The jail is frozen.
func (s *Steps) lookAgainAtFiles(ctx context.Context, t db.Task) error {
	open, err := s.cfg.Store.OpenApprovalsOfTools(ctx, db.OpenApprovalsOfToolsParams{OrgID: t.OrgID, TaskID: t.ID, Tools: filechange.Tools()})
	if err != nil {
		return fmt.Errorf("find the file changes that task %s waits for: %w", t.ID, err)
	}
	for _, row := range open {
		raw, err := s.arguments(row.Step)
		if err != nil {
			return err
		}
		var arguments map[string]any
		if err := json.Unmarshal(raw, &arguments); err != nil {
			return fmt.Errorf("read arguments of step %s: %w", row.Step.ID, err)
		}
		within, cancel := context.WithTimeout(ctx, looksTimeout)
		found := s.lookAtFiles(within, t, row.Step.Tool, arguments)
		cancel()
		if found.Unknown != "" {
			continue // what was seen before stands
		}
		if err := found.Store(ctx, s.cfg.Store.Queries, t.OrgID, row.ItemID); err != nil {
			return err
		}
	}
	return nil
}
