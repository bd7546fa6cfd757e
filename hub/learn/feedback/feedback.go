// Package feedback takes what people say of tasks, steps, plans, patterns and memories. A
// verdict changes the confidence in patterns or in the memory in the transaction that stores
// it. A correction becomes a proposal, which changes nothing until somebody accepts it; that of a
// memory changes the entry, if the person may.
//
// Each person has one verdict on each subject; a newer one replaces the older.
package feedback

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/learn/pattern"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

// The subjects of verdicts, as the database names them.
const (
	Task    = "task"
	Step    = "step"
	Plan    = "plan"
	Pattern = "pattern"
	Memory  = "memory"
)

// The verdicts.
const (
	Approve = "approve"
	Correct = "correct"
	Reject  = "reject"
)

// The states of proposals.
const (
	Open     = "open"
	Accepted = "accepted"
	Refused  = "refused"
)

// Config holds the dependencies of a Service. All are required.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Patterns *pattern.Service
	Memories *memory.Memories
}

// Service takes feedback.
type Service struct{ cfg Config }

// New creates a Service.
func New(cfg Config) *Service { return &Service{cfg: cfg} }

// Given is a verdict. The caller has found the subject among what the person sees.
type Given struct {
	Subject, SubjectID string
	// TaskID is set for tasks, steps and plans.
	TaskID              string
	Verdict, Correction string
	// Viewer is the person, and Role theirs: a correction of a memory changes the entry with their
	// rights.
	Viewer visibility.Viewer
	Role   string
}

// Result is what a verdict did.
type Result struct {
	Feedback  db.Feedback
	Proposals []db.LearnProposal
	// Patterns are those whose confidence it may have changed.
	Patterns []string
}

// Give stores a verdict.
func (s *Service) Give(ctx context.Context, orgID string, by event.Actor, g Given) (out Result, err error) {
	g.Correction = strings.TrimSpace(g.Correction)
	switch {
	case g.Verdict == Correct && g.Correction == "":
		return out, fault.New(fault.Invalid, "correction: is empty").WithCode(fault.InvalidParameters).WithFix("say what would have been better")
	case g.Verdict != Correct && g.Correction != "":
		return out, fault.New(fault.Invalid, "correction: is only for the verdict correct").WithCode(fault.InvalidParameters).WithFix("use the verdict correct, or leave the text out")
	}
	if g.Subject == Memory && g.Verdict == Correct {
		return s.correct(ctx, by, g)
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		out = Result{}
		if clean := tx.Redact(orgID).String(g.Correction); clean != g.Correction {
			return fault.New(fault.Invalid, "correction: has a secret").WithCode(fault.InvalidParameters).WithFix("leave the secret out: it would be shown to models")
		}
		if g.Subject == Memory {
			// Verdicts on one entry wait for each other, so that each is counted.
			is, err := tx.LockMemoryByID(ctx, db.LockMemoryByIDParams{OrgID: orgID, ID: g.SubjectID})
			if store.IsNotFound(err) || err == nil && is.DeletedAt != nil {
				return fault.New(fault.NotFound, "memory %s is deleted", g.SubjectID).WithFix("restore it first: deckhand memory restore %s", g.SubjectID).WithObject(g.SubjectID)
			}
			if err != nil {
				return fmt.Errorf("lock memory %s: %w", g.SubjectID, err)
			}
		}
		p := db.GiveFeedbackParams{
			ID: ident.New("feedback"), OrgID: orgID, Subject: g.Subject, SubjectID: g.SubjectID, Verdict: g.Verdict, Correction: g.Correction, GivenBy: by.ID,
		}
		if g.TaskID != "" {
			p.TaskID = &g.TaskID
		}
		if out.Feedback, err = tx.GiveFeedback(ctx, p); err != nil {
			return fmt.Errorf("store feedback: %w", err)
		}
		if g.Subject == Memory {
			if err := tx.CountMemoryVerdicts(ctx, db.CountMemoryVerdictsParams{OrgID: orgID, ID: g.SubjectID}); err != nil {
				return fmt.Errorf("count the verdicts on memory %s: %w", g.SubjectID, err)
			}
		}
		about, err := s.about(ctx, tx, orgID, g)
		if err != nil {
			return err
		}
		for _, one := range about {
			if g.Subject == Step {
				continue // a step is a small part of its run
			}
			if err := tx.CountVerdicts(ctx, db.CountVerdictsParams{OrgID: orgID, ID: one.id}); err != nil {
				return fmt.Errorf("count the verdicts on pattern %s: %w", one.id, err)
			}
			out.Patterns = append(out.Patterns, one.id)
		}
		if err := tx.WithdrawProposals(ctx, db.WithdrawProposalsParams{OrgID: orgID, FeedbackID: out.Feedback.ID}); err != nil {
			return fmt.Errorf("withdraw older proposals: %w", err)
		}
		if g.Verdict == Correct {
			if out.Proposals, err = propose(ctx, tx, orgID, by, g, out.Feedback.ID, about); err != nil {
				return err
			}
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "feedback.given", ObjectKind: g.Subject, ObjectID: g.SubjectID, Reason: g.Correction, After: map[string]any{"verdict": g.Verdict},
		})
	})
	return out, err
}

// correct stores a correction of a memory as the next version of the entry. It is not kept as a
// verdict, since those are seen by more people than an entry may be.
func (s *Service) correct(ctx context.Context, by event.Actor, g Given) (out Result, err error) {
	if err := memory.Correct(ctx, s.cfg.Memories, g.Viewer, g.Role, g.SubjectID, g.Correction, by); err != nil {
		return out, err
	}
	out.Feedback = db.Feedback{OrgID: g.Viewer.OrgID, Subject: Memory, SubjectID: g.SubjectID, Verdict: Correct, GivenBy: by.ID, GivenAt: time.Now()}
	return out, nil
}

// concerned is a pattern that a verdict is about.
type concerned struct{ id, owner string }

func (s *Service) about(ctx context.Context, tx *event.Tx, orgID string, g Given) (out []concerned, err error) {
	if g.Subject == Memory {
		return nil, nil
	}
	if g.Subject == Pattern {
		row, err := tx.LockPattern(ctx, db.LockPatternParams{OrgID: orgID, ID: g.SubjectID})
		if err != nil {
			return nil, fmt.Errorf("lock pattern %s: %w", g.SubjectID, err)
		}
		return []concerned{{row.ID, row.Owner}}, nil
	}
	rows, err := tx.PatternsOfTask(ctx, db.PatternsOfTaskParams{OrgID: orgID, TaskID: g.TaskID})
	if err != nil {
		return nil, fmt.Errorf("find the patterns of task %s: %w", g.TaskID, err)
	}
	for _, row := range rows {
		out = append(out, concerned{row.ID, row.Owner})
	}
	return out, nil
}

// propose creates the proposals of a correction: a note for each pattern that it concerns, or a
// new pattern of the task.
func propose(ctx context.Context, tx *event.Tx, orgID string, by event.Actor, g Given, feedbackID string, about []concerned) (out []db.LearnProposal, err error) {
	add := func(p db.CreateProposalParams) error {
		p.ID, p.OrgID, p.FeedbackID, p.Note, p.ProposedBy = ident.New("proposal"), orgID, feedbackID, g.Correction, by.ID
		if g.TaskID != "" {
			p.TaskID = &g.TaskID
		}
		row, err := tx.CreateProposal(ctx, p)
		if err != nil {
			return fmt.Errorf("store a proposal: %w", err)
		}
		out = append(out, row)
		return nil
	}
	for _, one := range about {
		if err := add(db.CreateProposalParams{PatternID: one.id, Owner: one.owner}); err != nil {
			return nil, err
		}
	}
	if len(about) > 0 {
		return out, nil
	}
	row, err := tx.RunToLearn(ctx, db.RunToLearnParams{OrgID: orgID, ID: g.TaskID})
	if err != nil {
		return nil, fmt.Errorf("load task %s: %w", g.TaskID, err)
	}
	return out, add(db.CreateProposalParams{Owner: row.Task.CreatedBy})
}

// MayDecide reports whether v may decide a proposal: its owner, and administrators who see its
// pattern; seen is also true without one.
func MayDecide(v visibility.Viewer, p db.LearnProposal, seen bool) bool {
	return v.Name != "" && (v.Name == p.Owner || v.All && seen)
}

// SeesPattern reports whether v sees the pattern of a proposal; true without one.
func (s *Service) SeesPattern(ctx context.Context, v visibility.Viewer, p db.LearnProposal) (bool, error) {
	if p.PatternID == "" {
		return true, nil
	}
	_, err := s.cfg.Patterns.Find(ctx, v, p.PatternID)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// Decision is what becomes of a proposal.
type Decision struct {
	Accept bool
	// AsMemory stores an accepted text in the memory of the person who decides, instead of as a
	// note of the pattern. Role is that person's role.
	AsMemory bool
	Role     string
}

// Decide accepts or refuses a proposal.
func (s *Service) Decide(ctx context.Context, v visibility.Viewer, by event.Actor, ref string, d Decision) (out db.LearnProposal, err error) {
	rows, err := s.cfg.Store.FindProposals(ctx, db.FindProposalsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Ref: ref, Prefix: store.Prefix("proposal", ref)})
	id, err := store.One("proposal", ref, rows, err)
	if err != nil {
		return out, err
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		p, err := tx.LockProposal(ctx, db.LockProposalParams{OrgID: v.OrgID, ID: id})
		if err != nil {
			return fmt.Errorf("lock proposal %s: %w", id, err)
		}
		seen, err := s.SeesPattern(ctx, v, p)
		if err != nil {
			return err
		}
		if !MayDecide(v, p, seen) {
			return fault.New(fault.Denied, "proposal %s is for %s to decide", id, p.Owner).WithCode(fault.PermissionDenied).WithFix("ask %s or an administrator", p.Owner).WithObject(id)
		}
		if p.State != Open {
			return fault.New(fault.Precondition, "proposal %s was %s by %s", id, p.State, p.DecidedBy).WithFix("give feedback again, or edit the pattern").WithObject(id)
		}
		decided := db.DecideProposalParams{OrgID: v.OrgID, ID: id, State: Refused, DecidedBy: by.ID, PatternID: p.PatternID}
		switch {
		case d.Accept && d.AsMemory:
			decided.State = Accepted
			err = s.remember(ctx, tx, v, by, p, d.Role)
		case d.Accept:
			decided.State = Accepted
			decided.PatternID, err = s.accept(ctx, tx, p, by)
		}
		if err != nil {
			return err
		}
		if out, err = tx.DecideProposal(ctx, decided); err != nil {
			return fmt.Errorf("store the decision on proposal %s: %w", id, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: v.OrgID, By: by, Action: "proposal." + decided.State, ObjectKind: "proposal", ObjectID: id, Reason: p.Note, After: map[string]any{"pattern": decided.PatternID},
		})
	})
	return out, err
}

// remember stores a proposal's text in the memory of the person who decides.
func (s *Service) remember(ctx context.Context, tx *event.Tx, v visibility.Viewer, by event.Actor, p db.LearnProposal, role string) error {
	// Two corrections may be about one task, or about tasks with one title.
	suffix := " (" + p.ID + ")"
	about := "pattern " + p.PatternID
	if p.TaskID != nil {
		row, err := tx.RunToLearn(ctx, db.RunToLearnParams{OrgID: p.OrgID, ID: *p.TaskID})
		if err != nil {
			return fmt.Errorf("load task %s: %w", *p.TaskID, err)
		}
		about = cmp.Or(row.Task.Title, row.Task.ID)
	}
	_, err := memory.SetIn(ctx, s.cfg.Memories, tx, v, role, memory.Draft{
		Scope: scope.Scope{Kind: scope.User}, Type: memory.Workflow, Key: textcut.Runes("correction of "+about, memory.MaxKey-len(suffix), "…") + suffix, Value: p.Note, Confidence: 1,
	}, by)
	return err
}

// accept adds a proposal's note to its pattern, or to a new one of its task.
func (s *Service) accept(ctx context.Context, tx *event.Tx, p db.LearnProposal, by event.Actor) (patternID string, err error) {
	if p.PatternID != "" {
		there, err := s.cfg.Patterns.AddNote(ctx, tx, p.OrgID, p.PatternID, p.Note, by.ID)
		if err != nil || there {
			return p.PatternID, err
		}
	}
	if p.PatternID != "" || p.TaskID == nil {
		return "", fault.New(fault.Precondition, "pattern %s is deleted", p.PatternID).WithFix("refuse the proposal, or undelete the pattern").WithObject(p.ID)
	}
	row, err := tx.RunToLearn(ctx, db.RunToLearnParams{OrgID: p.OrgID, ID: *p.TaskID})
	if err != nil {
		return "", fmt.Errorf("load task %s: %w", *p.TaskID, err)
	}
	return s.cfg.Patterns.CreateFrom(ctx, tx, row.Task, row.AgentName, p.Note, by.ID)
}

// About selects verdicts: those on a task with its steps and its plan, on a pattern, or on a
// memory, by their ids; all if it is empty.
type About struct{ TaskID, PatternID, MemoryID string }

// List returns a page of verdicts about what v sees, the newest first.
func (s *Service) List(ctx context.Context, v visibility.Viewer, about About, token string, size int32) (rows []db.Feedback, next string, err error) {
	p := db.ListFeedbackParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, MaxRows: size + 1}
	for id, field := range map[*string]**string{&about.TaskID: &p.TaskID, &about.PatternID: &p.PatternID, &about.MemoryID: &p.MemoryID} {
		if *id != "" {
			*field = id
		}
	}
	if token != "" {
		at, id, err := store.ParsePageToken(token)
		if err != nil {
			return nil, "", err
		}
		p.BeforeTime, p.BeforeID = &at, id
	}
	if rows, err = s.cfg.Store.ListFeedback(ctx, p); err != nil {
		return nil, "", fmt.Errorf("list feedback: %w", err)
	}
	rows, next = store.Page(rows, size, func(r db.Feedback) string { return store.PageToken(r.GivenAt, r.ID) })
	return rows, next, nil
}

// Proposals returns a page of the proposals that v may decide or has made, the newest first.
func (s *Service) Proposals(ctx context.Context, v visibility.Viewer, state, token string, size int32) (rows []db.ListProposalsRow, next string, err error) {
	p := db.ListProposalsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, MaxRows: size + 1}
	if state != "" {
		p.State = &state
	}
	if token != "" {
		at, id, err := store.ParsePageToken(token)
		if err != nil {
			return nil, "", err
		}
		p.BeforeTime, p.BeforeID = &at, id
	}
	if rows, err = s.cfg.Store.ListProposals(ctx, p); err != nil {
		return nil, "", fmt.Errorf("list proposals: %w", err)
	}
	rows, next = store.Page(rows, size, func(r db.ListProposalsRow) string { return store.PageToken(r.CreatedAt, r.ID) })
	return rows, next, nil
}
