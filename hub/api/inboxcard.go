package api

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// maxOutcome bounds the observation of an outcome, in bytes.
const maxOutcome = 2 << 10

// JudgeInboxItem returns what would be decided about an edited call.
func (h *Inbox) JudgeInboxItem(ctx context.Context, req *deckhandv1.JudgeInboxItemRequest) (*deckhandv1.JudgeInboxItemResponse, error) {
	id, err := h.Inbox.Find(ctx, viewer(ctx), req.GetItemId())
	if err != nil {
		return nil, err
	}
	row, err := h.Inbox.Get(ctx, auth.From(ctx).OrgID, id)
	if err != nil {
		return nil, err
	}
	judged, err := h.Inbox.Judge(ctx, row.InboxItem, req.GetArgumentsJson())
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.JudgeInboxItemResponse{
		Decision: decisionMessage(row, judged.Decision), JudgedDigest: judged.Digest,
		Sentence: tool.Sentence(row.InboxItem.Tool, judged.Arguments, jailName(row)),
	}
	res.Changes, res.ChangesUnknown = changesMessage(judged.Files)
	return res, nil
}

// sentence says what an item asks.
func sentence(row db.GetInboxItemRow, arguments map[string]any) string {
	i := row.InboxItem
	agent := row.AgentName
	if agent == "" {
		agent = i.AgentID
	}
	switch inbox.Kind(i.Kind) {
	case inbox.Question:
		return "Answer a question of " + agent
	case inbox.Unknown:
		return fmt.Sprintf("Find out whether this happened: %s", tool.Sentence(i.Tool, arguments, jailName(row)))
	case inbox.Review:
		return "Review the work of " + agent
	case inbox.Escalation:
		return "Decide how this task of " + agent + " goes on"
	}
	return tool.Sentence(i.Tool, arguments, jailName(row))
}

// jailName names where the commands of an item's task run.
func jailName(row db.GetInboxItemRow) string {
	out := "the jail of " + row.AgentName
	if row.NodeName != "" {
		out += " on " + row.NodeName
	}
	return out
}

// addCard adds to an item what only GetInboxItem returns.
func addCard(m *deckhandv1.InboxItem, c inbox.Card) {
	m.Context = &deckhandv1.InboxContext{
		Goal: c.Goal, PlanItem: c.PlanItem, PlanDone: c.PlanDone, PlanItems: c.PlanItems, Asked: c.Asked,
		SimilarApproved: c.Approved, SimilarRejected: c.Rejected, SimilarBy: "tool",
	}
	if c.ByShape {
		m.Context.SimilarBy = "shape"
	}
	if r := c.LastRejection; r != nil {
		m.Context.LastRejection = &deckhandv1.InboxRejection{ItemId: r.ItemID, By: r.By, Reason: r.Reason, At: timestamppb.New(r.At)}
	}
	m.Context.EarlierRequestsCount = c.RequestsFound
	for _, r := range c.Requests {
		m.Context.EarlierRequests = append(m.Context.EarlierRequests, &deckhandv1.EarlierRequest{
			StepId: r.StepID, TaskId: r.TaskID, Number: r.Number, Method: r.Method, Url: r.URL, At: timestamppb.New(r.At), ErrorCode: r.ErrorCode, Status: r.Status,
			State: deckhandv1.StepState(enumValue(deckhandv1.StepState_value, "STEP_STATE_", r.State)),
		})
	}
	m.Changes, m.ChangesUnknown = changesMessage(c.Files)
	if c.Files != nil {
		m.ChangesAt = timestamppb.New(c.Files.At)
	}
	if c.Step != nil {
		m.Outcome = outcomeMessage(*c.Step, c.FilesChanged)
	}
	if e := c.Escalation; e != nil {
		m.Escalation = &deckhandv1.InboxEscalation{ErrorCode: e.Code, Provider: e.Provider, Model: e.Model, NodeId: e.NodeID, Remedies: e.Remedies}
		for _, f := range e.Failures {
			m.Escalation.Failures = append(m.Escalation.Failures, &deckhandv1.TaskFailure{At: timestamppb.New(f.At), ErrorCode: f.Code, Message: f.Message})
		}
	}
}

func outcomeMessage(step db.Step, files int32) *deckhandv1.CallOutcome {
	m := &deckhandv1.CallOutcome{
		State:     deckhandv1.StepState(enumValue(deckhandv1.StepState_value, "STEP_STATE_", step.State)),
		StartedAt: timestamp(step.StartedAt), FinishedAt: timestamp(step.FinishedAt), FilesChanged: files,
		ErrorCode: step.ErrorCode, Observation: textcut.WholeRunes(step.Observation, maxOutcome),
	}
	var outcome struct {
		ExitCode *int32 `json:"exit_code"`
	}
	if json.Unmarshal(step.Outcome, &outcome) == nil {
		m.ExitStatus = outcome.ExitCode
	}
	return m
}

func changesMessage(files *inbox.FileChanges) (out []*deckhandv1.ProposedChange, unknown string) {
	if files == nil {
		return nil, ""
	}
	for _, c := range files.Changes {
		m := &deckhandv1.ProposedChange{
			Kind: string(c.Kind), Path: c.Path, To: c.To, Added: int32(c.Added), Deleted: int32(c.Deleted), //nolint:gosec // lines of a small file
			Unified: c.Unified, Omitted: c.Omitted, Problem: c.Problem, Files: int32(c.Files), SizeBytes: c.Bytes, More: c.More, //nolint:gosec // bounded by the listing
		}
		if s := c.Before; s != nil {
			m.Before = &deckhandv1.PathState{Type: s.Type, SizeBytes: s.Size, Lines: int32(s.Lines), Mode: s.Mode} //nolint:gosec // of a small file
		}
		if s := c.Target; s != nil {
			m.Target = &deckhandv1.PathState{Type: s.Type, SizeBytes: s.Size, Lines: int32(s.Lines), Mode: s.Mode} //nolint:gosec // of a small file
		}
		if s := c.After; s != nil {
			m.After = &deckhandv1.PathState{Type: s.Type, SizeBytes: s.Size, Lines: int32(s.Lines), Mode: s.Mode} //nolint:gosec // of a small file
		}
		for _, e := range c.Entries {
			m.Entries = append(m.Entries, &deckhandv1.PathEntry{Path: e.Path, Type: e.Type, SizeBytes: e.Size})
		}
		if g := c.Git; g != nil {
			m.Git = &deckhandv1.GitCoverage{
				Branch: g.Branch, Unchanged: int32(g.Unchanged), Changed: int32(g.Changed), Untracked: int32(g.Untracked), Ignored: int32(g.Ignored), //nolint:gosec // bounded by the listing
			}
		}
		out = append(out, m)
	}
	return out, files.Unknown
}
