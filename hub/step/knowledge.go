package step

import (
	"context"
	"fmt"
	"strconv"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/knowledge"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// stepKnowledge is the knowledge base as the person for whom a task runs sees it. It
// implements tool.KnowledgeBase.
type stepKnowledge struct {
	steps *Steps
	task  db.Task
}

// viewer returns the person for whom the task runs, as they are now. An administrator's agents
// see no more than the administrator does as a member of the organisation and its teams.
func (s stepKnowledge) viewer(ctx context.Context) (visibility.Viewer, error) {
	t := s.task
	role, err := s.steps.cfg.Role(ctx, s.steps.cfg.Store.Queries, t.OrgID, t.CreatedBy, "")
	if err != nil {
		return visibility.Viewer{}, err
	}
	if role == "" {
		return visibility.Viewer{}, fault.New(fault.Denied, "%s, for whom the task runs, is disabled or no user", t.CreatedBy).WithCode(fault.PermissionDenied).
			WithFix("go on without the knowledge base")
	}
	return visibility.Viewer{OrgID: t.OrgID, Name: t.CreatedBy}, nil
}

// Search implements tool.KnowledgeBase.
func (s stepKnowledge) Search(ctx context.Context, query string, collections []string, limit int) ([]tool.KnowledgePassage, int, error) {
	v, err := s.viewer(ctx)
	if err != nil {
		return nil, 0, err
	}
	found, err := s.steps.cfg.Knowledge.Search(ctx, v, knowledge.Query{Text: query, Collections: collections, Limit: limit})
	if err != nil {
		return nil, 0, err
	}
	out := make([]tool.KnowledgePassage, len(found.Hits))
	for i, h := range found.Hits {
		out[i] = tool.KnowledgePassage{Citation: h.Citation(), Heading: h.Heading, Text: h.Body, ID: strconv.FormatInt(h.ID, 10)}
	}
	return out, found.Collections, nil
}

// Index implements tool.KnowledgeBase.
func (s stepKnowledge) Index(ctx context.Context, path, collection string) (tool.KnowledgeIndex, error) {
	t := s.task
	v, err := s.viewer(ctx)
	if err != nil {
		return tool.KnowledgeIndex{}, err
	}
	if t.NodeID == nil {
		return tool.KnowledgeIndex{}, fault.New(fault.Precondition, "the task has no workspace").WithFix("index documents in a task that has one")
	}
	row, err := s.steps.cfg.Agents.Get(ctx, t.OrgID, t.AgentID)
	if err != nil {
		return tool.KnowledgeIndex{}, fmt.Errorf("load agent %s: %w", t.AgentID, err)
	}
	done, err := s.steps.cfg.Knowledge.Index(ctx, v, knowledge.Indexing{
		Collection: collection, AgentID: t.AgentID, AgentName: row.Agent.Name, NodeID: *t.NodeID, JailID: t.JailID, TaskID: t.ID, Path: path,
	})
	if err != nil {
		return tool.KnowledgeIndex{}, err
	}
	return tool.KnowledgeIndex{
		Collection: done.Collection, Documents: done.Documents, Passages: done.Passages,
		Added: done.Sync.Added, Changed: done.Sync.Changed, Removed: done.Sync.Removed, Skipped: done.Sync.Skipped,
	}, nil
}
