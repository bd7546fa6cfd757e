package task

import (
	"context"
	"encoding/base64"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/agent"
	"github.com/deckhand-sh/deckhand/hub/event"
	"github.com/deckhand-sh/deckhand/hub/store"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// Config says what a Service works with.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Agents   *agent.Service
	// Admit is called after a commit that may let a task start.
	Admit func(orgID string)
	// Stop ends the running command of a step, best effort.
	Stop func(step db.Step, by string)
}

// Service submits, finds and cancels tasks.
type Service struct{ cfg Config }

// NewService makes a Service.
func NewService(cfg Config) *Service { return &Service{cfg} }

// Input is a file put into the workspace before the first step.
type Input struct {
	Path    string
	Content []byte
}

// maxInputBytes bounds all inputs of a task together.
const maxInputBytes = 32 << 20

// Submission is a task as it is asked for.
type Submission struct {
	OrgID          string
	AgentID        string
	Goal           string
	Title          string
	Priority       int32
	Inputs         []Input
	IdempotencyKey string
	By             event.Actor
	Role           string
}

// Submit stores a task, queued. A submission repeated with its idempotency key
// answers the first task.
func (s *Service) Submit(ctx context.Context, sub Submission) (db.GetTaskRow, error) {
	if err := checkInputs(sub.Inputs); err != nil {
		return db.GetTaskRow{}, err
	}
	agent, err := s.cfg.Agents.Get(ctx, sub.OrgID, sub.AgentID)
	if err != nil {
		return db.GetTaskRow{}, err
	}
	version, err := s.cfg.Agents.Version(ctx, sub.OrgID, sub.AgentID, agent.Agent.CurrentVersion)
	if err != nil {
		return db.GetTaskRow{}, err
	}
	p, err := s.cfg.Agents.Persona(version.Digest, version.Markdown)
	if err != nil {
		return db.GetTaskRow{}, fmt.Errorf("agent %s: %w", sub.AgentID, err)
	}
	params := db.CreateTaskParams{
		ID: ident.New("task"), OrgID: sub.OrgID, AgentID: sub.AgentID, AgentVersion: version.Version,
		Title: sub.Title, Goal: sub.Goal, Priority: sub.Priority, Reason: "just submitted",
		WorkspaceScope: string(p.Workspace.Scope), CreatedBy: sub.By.ID, CreatedByRole: sub.Role,
		CorrelationID: logging.Correlation(ctx), InputCount: int32(len(sub.Inputs)), //nolint:gosec // at most 16
	}
	if params.Goal == "" {
		params.Goal = "Follow your standing instructions."
	}
	if params.Title == "" {
		params.Title = titleOf(params.Goal)
	}
	if params.Priority == 0 {
		params.Priority = 5
	}
	params.JailID = AgentJail(sub.AgentID)
	if p.Workspace.Scope == persona.ScopeTask {
		params.JailID = "jail_" + strings.TrimPrefix(params.ID, "task_")
	}
	if sub.IdempotencyKey != "" {
		params.IdempotencyKey = &sub.IdempotencyKey
	}
	row := db.GetTaskRow{AgentName: agent.Agent.Name, Provider: version.Provider, Model: version.Model}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.CreateTask(ctx, params)
		if store.IsNotFound(err) && params.IdempotencyKey != nil {
			first, err := tx.TaskByIdempotencyKey(ctx, db.TaskByIdempotencyKeyParams{
				OrgID: sub.OrgID, IdempotencyKey: params.IdempotencyKey,
			})
			if err != nil {
				return fmt.Errorf("find task by idempotency key: %w", err)
			}
			if first.AgentID != params.AgentID || first.Goal != params.Goal {
				return fault.New(fault.Exists, "idempotency_key %q was used for task %s, which has another agent or goal", sub.IdempotencyKey, first.ID).
					WithFix("use a key of its own for each task").WithObject(first.ID)
			}
			row, err = tx.GetTask(ctx, db.GetTaskParams{OrgID: sub.OrgID, ID: first.ID})
			return err
		}
		if err != nil {
			return fmt.Errorf("store task: %w", err)
		}
		row.Task = t
		for _, in := range sub.Inputs {
			if err := tx.CreateTaskInput(ctx, db.CreateTaskInputParams{
				TaskID: t.ID, Path: in.Path, OrgID: sub.OrgID, Content: in.Content,
			}); err != nil {
				return fmt.Errorf("store input %s: %w", in.Path, err)
			}
		}
		tx.AfterCommit(func() { s.cfg.Admit(sub.OrgID) })
		err = tx.Append(sub.OrgID, t.ID, sub.By, event.Draft{Type: "task.submitted", Payload: map[string]any{
			"agent": agent.Agent.Name, "agent_version": version.Version, "goal": params.Goal,
			"priority": params.Priority, "inputs": len(sub.Inputs), "provider": version.Provider, "model": version.Model,
		}})
		return err
	})
	return row, err
}

// AgentJail names the jail of an agent whose workspace is its own.
func AgentJail(agentID string) string { return "jail_" + strings.TrimPrefix(agentID, "agent_") }

func checkInputs(inputs []Input) error {
	total := 0
	seen := map[string]bool{}
	for i, in := range inputs {
		clean := path.Clean(in.Path)
		if path.IsAbs(clean) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") || clean != in.Path {
			return fault.New(fault.Invalid, "inputs[%d].path %q is not a plain path below the workspace", i, in.Path).
				WithFix("use a path such as input/app.log")
		}
		if seen[clean] {
			return fault.New(fault.Invalid, "inputs[%d].path %q is there twice", i, in.Path).WithFix("give each input a path of its own")
		}
		seen[clean] = true
		total += len(in.Content)
	}
	if total > maxInputBytes {
		return fault.New(fault.Invalid, "inputs are %d bytes together, over the limit of %d", total, maxInputBytes).
			WithFix("give less, or fetch the data from the agent")
	}
	return nil
}

// titleOf shortens a goal to its first line, at most 80 characters.
func titleOf(goal string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(goal), "\n")
	if r := []rune(line); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return line
}

// Find answers the id of the task that ref names: an id or a unique prefix.
func (s *Service) Find(ctx context.Context, orgID, ref string) (string, error) {
	rows, err := s.cfg.Store.FindTasks(ctx, db.FindTasksParams{OrgID: orgID, Ref: ref, Prefix: store.Prefix("task", ref)})
	return store.One("task", ref, rows, err)
}

// Get answers a task by its id.
func (s *Service) Get(ctx context.Context, orgID, id string) (db.GetTaskRow, error) {
	row, err := s.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, fault.New(fault.NotFound, "there is no task %q", id).WithObject(id)
	}
	return row, err
}

// maxPosition is how far a place in the queue is counted.
const maxPosition = 1000

// QueuePosition answers a queued task's place in its organisation's queue,
// from 1, counted up to 1 001; 0 for one that is not waiting there.
func (s *Service) QueuePosition(ctx context.Context, t db.Task) (int32, error) {
	if State(t.State) != Queued {
		return 0, nil
	}
	if t.QueuedAt == nil || t.AdmittedAt != nil {
		return 0, nil
	}
	n, err := s.cfg.Store.QueuePosition(ctx, db.QueuePositionParams{
		OrgID: t.OrgID, ID: t.ID, Priority: t.Priority, QueuedAt: *t.QueuedAt, MaxRows: maxPosition,
	})
	return int32(n) + 1, err //nolint:gosec // bounded by the query
}

// Filter picks tasks for List.
type Filter struct {
	AgentID   string
	States    []State
	PageSize  int32
	PageToken string
}

// List answers a page of tasks, newest first, and the next page's token.
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]db.ListTasksRow, string, error) {
	params := db.ListTasksParams{OrgID: orgID, MaxRows: f.PageSize + 1}
	if f.AgentID != "" {
		params.AgentID = &f.AgentID
	}
	for _, st := range f.States {
		params.States = append(params.States, string(st))
	}
	if f.PageToken != "" {
		at, id, err := parsePageToken(f.PageToken)
		if err != nil {
			return nil, "", err
		}
		params.BeforeTime, params.BeforeID = &at, id
	}
	rows, err := s.cfg.Store.ListTasks(ctx, params)
	if err != nil {
		return nil, "", fmt.Errorf("list tasks: %w", err)
	}
	if len(rows) <= int(f.PageSize) {
		return rows, "", nil
	}
	rows = rows[:f.PageSize]
	last := rows[len(rows)-1].Task
	return rows, base64.RawURLEncoding.EncodeToString([]byte(last.CreatedAt.Format(time.RFC3339Nano) + " " + last.ID)), nil
}

func parsePageToken(token string) (time.Time, string, error) {
	bad := fault.New(fault.Invalid, "page_token is not one that a list has answered").WithFix("leave it out to begin again")
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return time.Time{}, "", bad
	}
	when, id, ok := strings.Cut(string(raw), " ")
	at, err := time.Parse(time.RFC3339Nano, when)
	if err != nil || !ok {
		return time.Time{}, "", bad
	}
	return at, id, nil
}

// Cancel ends a task and its running commands. Cancelling a cancelled task is
// harmless; any other final task is refused.
func (s *Service) Cancel(ctx context.Context, orgID, id, reason string, by event.Actor) (db.GetTaskRow, error) {
	var live []db.Step
	err := s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: orgID, ID: id})
		if err != nil {
			return fmt.Errorf("lock task %s: %w", id, err)
		}
		if State(t.State) == Cancelled {
			return nil
		}
		why := "cancelled by " + by.ID
		if reason != "" {
			why += ": " + reason
		}
		steps, err := tx.CancelSteps(ctx, db.CancelStepsParams{OrgID: orgID, TaskID: id, Reason: why})
		if err != nil {
			return fmt.Errorf("cancel steps of %s: %w", id, err)
		}
		for _, step := range steps {
			if step.StartedAt != nil {
				live = append(live, step)
			}
		}
		if _, err := Move(ctx, tx, t, Cancelled, why, by); err != nil {
			return err
		}
		return tx.Append(orgID, id, by, event.Draft{Type: "execution_cancelled", Payload: map[string]any{"reason": why}})
	})
	if err != nil {
		return db.GetTaskRow{}, err
	}
	var stopping sync.WaitGroup
	for _, step := range live {
		stopping.Go(func() { s.cfg.Stop(step, by.ID) })
	}
	stopping.Wait()
	// Only now: the next task of the agent finds nothing of this one running.
	s.cfg.Admit(orgID)
	return s.Get(ctx, orgID, id)
}
