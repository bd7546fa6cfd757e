package audit

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/auditlog"
)

// eventLine is an event as a receipt's digest has it.
type eventLine struct {
	Seq       int64           `json:"seq"`
	Type      string          `json:"type"`
	Time      time.Time       `json:"time"`
	ActorKind string          `json:"actor_kind"`
	ActorID   string          `json:"actor_id"`
	Attempt   int32           `json:"attempt"`
	Payload   json.RawMessage `json:"payload"`
}

// Receipt returns the receipt of a task's run, as far as the database has it; the caller
// adds the jail's specification and egress. It is not signed yet.
func Receipt(ctx context.Context, s *store.Store, row db.GetTaskRow) (auditlog.Receipt, error) {
	t := row.Task
	r := auditlog.Receipt{
		Organisation: t.OrgID, TaskID: t.ID, State: t.State, CreatedBy: t.CreatedBy, Agent: row.AgentName, AgentID: t.AgentID,
		PersonaVersion: t.AgentVersion, Images: []string{}, Egress: []string{}, Approvers: []auditlog.Approval{}, Time: time.Now(),
		FinishedAt: utc(t.FinishedAt),
	}
	v, err := s.AgentVersion(ctx, db.AgentVersionParams{OrgID: t.OrgID, AgentID: t.AgentID, Version: t.AgentVersion})
	if err != nil && !store.IsNotFound(err) {
		return r, fmt.Errorf("read the persona of %s: %w", t.ID, err)
	}
	r.PersonaDigest = v.Digest
	steps, err := s.ReceiptSteps(ctx, db.ReceiptStepsParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return r, fmt.Errorf("read the steps of %s: %w", t.ID, err)
	}
	r.Nodes, r.Policies = steps.Nodes, steps.Policies
	answers, err := s.ReceiptAnswers(ctx, db.ReceiptAnswersParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return r, fmt.Errorf("read the answers to %s: %w", t.ID, err)
	}
	for _, a := range answers {
		given := auditlog.Approval{Item: a.ID, Kind: a.Kind, Tool: a.Tool, Answer: a.Answer, By: a.AnsweredBy}
		if a.AnsweredAt != nil {
			given.Time = a.AnsweredAt.UTC()
		}
		r.Approvers = append(r.Approvers, given)
	}
	return r, digest(ctx, s, t, &r)
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	out := t.UTC()
	return &out
}

// digest chains a task's events, as an audit's entries are.
func digest(ctx context.Context, s *store.Store, t db.Task, r *auditlog.Receipt) error {
	var hash auditlog.Hash
	for after := int64(0); ; {
		rows, err := s.ReceiptEvents(ctx, db.ReceiptEventsParams{OrgID: t.OrgID, TaskID: t.ID, AfterSeq: after, MaxRows: exportEntries})
		if err != nil {
			return fmt.Errorf("read the events of %s: %w", t.ID, err)
		}
		for _, row := range rows {
			e := eventLine(row)
			e.Time = e.Time.UTC()
			line, err := json.Marshal(e)
			if err != nil {
				return fmt.Errorf("encode event %d of %s: %w", e.Seq, t.ID, err)
			}
			if e.Type == "execution_started" && r.StartedAt == nil {
				r.StartedAt = &e.Time
			}
			hash, after = auditlog.Next(hash, line), e.Seq
			r.Events++
		}
		if len(rows) < exportEntries {
			break
		}
	}
	r.EventsDigest = hex.EncodeToString(hash[:])
	return nil
}
