// Package subtask creates the tasks that agents give each other: subtasks, for which
// their parent waits, and handoffs, which end the run of the agent that hands over.
// Service creates them and continues those that wait.
//
// A subtask is a task with the parent's user, role, trigger and lineage, so that it may
// do no more and spends from the same budget. It is created in the transaction that makes
// the parent's step wait for it, and a step creates at most one; programs in the parent's jail
// may create others. The parent waits as it
// does for a reply to a question: its worker yields, and it has neither lease nor slot.
// When the subtask has ended, its step is granted, and the parent is queued once all
// subtasks that it waits for have ended.
//
// A subtask in the background does not make its parent wait: its step is concluded at once,
// and the parent asks for the result with the tool wait.
//
// A handoff creates a task that depends on the source: it starts when the source has
// succeeded, and is cancelled otherwise. If a parent waits for the source, it waits for
// the target from then on.
//
// Nothing of this is kept in memory. After a commit that moves a task with a parent or
// subtasks, and from time to time, a hub looks for parents whose subtasks have ended and
// for subtasks whose parent has. A process that dies in between therefore delays the
// family by one sweep. A child's transaction never locks its parent's row: locks go from
// the older task to the newer.
package subtask

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/artifact"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/nearest"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

// Config holds the dependencies of a Service.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Agents   *agent.Service
	Tasks    *task.Service
	Tools    *tool.Registry
	// Artifacts brings what a handoff names into the target's workspace.
	Artifacts *artifact.Artifacts
	// Sweep is the interval at which families are checked without a cause.
	Sweep time.Duration
	Log   hclog.Logger
}

// Service makes subtasks and handoffs and sees to their ends. It is a
// lifecycle.Service; any number of hubs may run one.
type Service struct {
	lifecycle.Runner

	cfg  Config
	kick chan struct{}

	mu sync.Mutex
	// stale are parents whose reason may be outdated.
	stale map[parent]bool
}

type parent struct{ orgID, taskID string }

// New creates a Service.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, kick: make(chan struct{}, 1), stale: map[parent]bool{}}
}

// Request is a call that wants work done, with what was looked up for it.
type Request struct {
	work  tool.SubtaskSpec
	draft *task.Draft
	// refused is why the task cannot be created: nil if it can.
	refused *fault.Error
	handoff string
}

// Background reports that the caller goes on while the task runs.
func (r *Request) Background() bool { return r.work.Background }

// Prepare loads what a call needs, before the transaction that creates the task. t is the
// caller's task; stepID is empty for a subtask that no call waits for.
func (s *Service) Prepare(ctx context.Context, t db.Task, stepID string, work tool.SubtaskSpec) (*Request, error) {
	r := &Request{work: work}
	own, err := s.cfg.Agents.PersonaOf(ctx, s.cfg.Store.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	if own, err = task.EffectivePersona(t, own); err != nil {
		return nil, err
	}
	target := t.AgentID
	if work.Agent != "" {
		a, found, err := s.target(ctx, s.cfg.Store.Queries, t, work.Agent)
		if err != nil {
			return nil, err
		}
		if !found {
			if r.refused = permitted(own, work); r.refused == nil {
				r.refused = unknownAgent(own, work)
			}
			return r, nil
		}
		if r.refused = fault.As(agent.Startable(a)); r.refused != nil {
			return r, nil
		}
		target = a.ID
	}
	sub := task.Submission{
		OrgID: t.OrgID, AgentID: target, Title: work.Title, Goal: work.Goal, Context: work.Context, By: event.Hub, IdempotencyKey: work.Key,
	}
	// Nothing leaves the workspaces of the tasks below one that is reviewed either,
	// and what it runs with instead of its persona's is not for less care.
	sub.Override.Mode = inherited(own.Mode)
	if work.Manifest == nil {
		sub.Parent, sub.ParentStep = &t, stepID
	} else {
		manifest := *work.Manifest
		manifest.HandoffID, manifest.SourceAgent = ident.New("handoff"), own.Name
		if sub.With, r.refused, err = s.artifacts(ctx, t, &manifest); err != nil || r.refused != nil {
			return r, err
		}
		if sub.Manifest, err = json.Marshal(manifest); err != nil {
			return nil, fmt.Errorf("encode the manifest: %w", err)
		}
		sub.Source, sub.After, r.handoff = &t, []string{t.ID}, manifest.HandoffID
	}
	r.draft, err = s.cfg.Tasks.Draft(ctx, sub)
	return r, err
}

// inherited returns the execution mode that a subtask inherits from its parent, or "" if
// its agent's own mode applies.
func inherited(mode persona.Mode) persona.Mode {
	if mode == persona.Review {
		return mode
	}
	return ""
}

// maxReason bounds what an event says about why a subtask was created, in characters.
const maxReason = 500

// Make creates the task that a call requests, or returns why it may not. The caller's
// task row is locked.
func (s *Service) Make(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, r *Request) (db.GetTaskRow, *fault.Error, error) {
	var row db.GetTaskRow
	if r.refused != nil {
		return row, r.refused, nil
	}
	if err := tx.LockLineage(ctx, t.LineageID); err != nil {
		return row, nil, fmt.Errorf("lock lineage %s: %w", t.LineageID, err)
	}
	refused, err := s.Check(ctx, tx.Queries, t, step.Turn, r.work)
	if err != nil || refused != nil {
		return row, refused, err
	}
	if row, err = r.draft.Store(ctx, tx); err != nil {
		if e := fault.As(err); e != nil && (e.Kind == fault.Precondition || e.Kind == fault.Exhausted) {
			return row, e, nil // a hold, or no run is left
		}
		return row, nil, err
	}
	payload := map[string]any{
		"step_id": step.ID, "task_id": row.Task.ID, "agent": row.AgentName, "goal": row.Task.Goal, "tool": step.Tool,
		"reason": textcut.Runes(cmp.Or(r.work.Context, r.work.Title), maxReason, "…"),
	}
	kind := eventkind.AgentSubtaskCreated
	if r.handoff != "" {
		kind, payload["handoff_id"] = eventkind.AgentHandedOver, r.handoff
	} else if err := tx.CountSubtask(ctx, db.CountSubtaskParams{OrgID: t.OrgID, ID: t.ID}); err != nil {
		return row, nil, fmt.Errorf("count the subtasks of %s: %w", t.ID, err)
	}
	return row, nil, tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: kind, Payload: payload})
}

// ChildOf returns the task that a step created, or the last one that its work was handed
// off to, and whether there is one. ended reports that it has ended.
func (s *Service) ChildOf(ctx context.Context, q *db.Queries, step db.Step) (given tool.ChildTask, ended, found bool, err error) {
	row, err := q.NewestOfStep(ctx, db.NewestOfStepParams{OrgID: step.OrgID, StepID: step.ID})
	if store.IsNotFound(err) {
		return given, false, false, nil
	}
	if err != nil {
		return given, false, false, fmt.Errorf("find the task of step %s: %w", step.ID, err)
	}
	if given, err = s.given(ctx, q, row.Task, row.AgentName); err != nil {
		return given, false, false, err
	}
	return given, task.State(row.Task.State).Final(), true, nil
}

// given returns a subtask as its parent's agent sees it.
func (s *Service) given(ctx context.Context, q *db.Queries, t db.Task, agentName string) (tool.ChildTask, error) {
	given := tool.ChildTask{
		TaskID: t.ID, Agent: agentName, State: t.State, Reason: t.Reason, Code: t.ErrorCode, Message: t.ErrorMessage,
		Summary: t.Summary, Iterations: t.Iteration, CostMicros: t.CostMicros,
	}
	if t.Subtasks > 0 {
		below, err := s.SubtreeUsage(ctx, q, t)
		if err != nil {
			return given, err
		}
		given.CostMicros += below.CostMicros
	}
	return given, nil
}

// Child returns a subtask of a task by its id, or the last task that its work was handed off
// to, and whether that has ended; also one that a program of the task has submitted. An id of no such task is an error of kind Invalid.
func (s *Service) Child(ctx context.Context, q *db.Queries, t db.Task, id string) (child tool.ChildTask, ended bool, err error) {
	row, err := q.GetTask(ctx, db.GetTaskParams{OrgID: t.OrgID, ID: id})
	if err != nil && !store.IsNotFound(err) {
		return child, false, fmt.Errorf("load task %s: %w", id, err)
	}
	if err != nil || row.Task.ParentID == nil || *row.Task.ParentID != t.ID {
		return child, false, fault.New(fault.Invalid, "your task has no subtask %q", id).WithCode(fault.InvalidParameters).
			WithFix("use the id that create_subtask or delegate returned")
	}
	if row.Task.ParentStepID == nil { // a program of the task has submitted it
		child, err = s.given(ctx, q, row.Task, row.AgentName)
		return child, task.State(row.Task.State).Final(), err
	}
	child, ended, _, err = s.ChildOf(ctx, q, db.Step{OrgID: t.OrgID, ID: *row.Task.ParentStepID})
	return child, ended, err
}

// SubtreeUsage sums up the tasks below one.
func (s *Service) SubtreeUsage(ctx context.Context, q *db.Queries, t db.Task) (db.SumBelowRow, error) {
	sum, err := q.SumBelow(ctx, db.SumBelowParams{OrgID: t.OrgID, ID: t.ID})
	if err != nil {
		return sum, fmt.Errorf("sum up what is below task %s: %w", t.ID, err)
	}
	return sum, nil
}

// WaitReason returns a text about what calls of a task wait for; "" for nothing.
func WaitReason(ctx context.Context, q *db.Queries, orgID, taskID string) (string, error) {
	rows, err := q.AwaitedTasks(ctx, db.AwaitedTasksParams{OrgID: orgID, TaskID: taskID})
	if err != nil {
		return "", fmt.Errorf("find what task %s waits for: %w", taskID, err)
	}
	if len(rows) == 0 {
		return "", nil
	}
	// A subtask that needs a person is the one to name.
	named := rows[0]
	for _, row := range rows {
		if task.State(row.State).WaitsForPerson() {
			named = row
		}
	}
	what := "a subtask"
	if len(rows) > 1 {
		what = fmt.Sprintf("%d subtasks", len(rows))
	}
	return fmt.Sprintf("waits for %s; %s of agent %s is %s: deckhand task show %s", what, named.ID, named.AgentName, named.State, named.ID), nil
}

// unknownAgent is the refusal of work for an agent that the persona names and that does
// not exist. It names the other agents that may be used, the nearest in spelling first.
func unknownAgent(own *persona.Persona, work tool.SubtaskSpec) *fault.Error {
	e := fault.New(fault.Invalid, "there is no agent %q", work.Agent).WithCode(fault.InvalidParameters)
	_, names := targets(own, work)
	if names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == work.Agent }); len(names) == 0 {
		return e.WithFix("do it yourself: you may use no other")
	}
	return e.WithFix("use one of %s", strings.Join(nearest.Sort(work.Agent, names), ", "))
}

// target returns the agent that a task may give work to by its name, if there is one that
// the applier of the task's persona sees.
func (s *Service) target(ctx context.Context, q *db.Queries, t db.Task, name string) (a db.Agent, found bool, err error) {
	a, err = q.AgentByName(ctx, db.AgentByNameParams{OrgID: t.OrgID, Name: name})
	if store.IsNotFound(err) {
		return a, false, nil
	}
	if err != nil {
		return a, false, fmt.Errorf("find agent %s: %w", name, err)
	}
	version, err := s.cfg.Agents.VersionIn(ctx, q, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return a, false, err
	}
	found, err = visibility.Sees(ctx, q, visibility.As(t.OrgID, version.CreatedBy, version.CreatedByRole), a.ID)
	return a, found, err
}

// targets returns the agents to which a persona may give work, and the key that names them.
func targets(own *persona.Persona, work tool.SubtaskSpec) (key string, names []string) {
	if work.Manifest != nil {
		return "agents.handoff", own.Agents.Handoff
	}
	return "agents.delegate", own.Agents.Delegate
}

// Check returns why a task may not give that work away now, or nil. Asked again
// under the lineage's lock, the answer holds for the transaction.
func (s *Service) Check(ctx context.Context, q *db.Queries, t db.Task, turn int32, work tool.SubtaskSpec) (*fault.Error, error) {
	own, err := s.cfg.Agents.PersonaOf(ctx, q, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	if own, err = task.EffectivePersona(t, own); err != nil {
		return nil, err
	}
	targetID, target := t.AgentID, own
	if work.Agent != "" {
		if refused := permitted(own, work); refused != nil {
			return refused, nil
		}
		a, found, err := s.target(ctx, q, t, work.Agent)
		if err != nil {
			return nil, err
		}
		if !found {
			return unknownAgent(own, work), nil
		}
		if e := fault.As(agent.Startable(a)); e != nil {
			return e, nil
		}
		targetID = a.ID
		if target, err = s.cfg.Agents.PersonaOf(ctx, q, t.OrgID, a.ID, a.CurrentVersion); err != nil {
			return nil, err
		}
	}
	chain, err := s.chain(ctx, q, t)
	if err != nil {
		return nil, err
	}
	if refused := chain.circle(own, targetID, work); refused != nil {
		return refused, nil
	}
	if own.Mode == persona.Review {
		reviewed := *target // see Prepare
		reviewed.Mode, target = persona.Review, &reviewed
	}
	if more := exceeds(own, target, s.cfg.Tools); more != "" {
		return fault.New(fault.Denied, "agent %s may do more than %s: %s", target.Name, own.Name, more).WithCode(fault.PermissionDenied).
			WithFix("do it yourself, or ask a person to give that agent no more rights than yours"), nil
	}
	if work.Manifest == nil && work.Agent != "" && own.Agents.Rounds > 0 {
		rounds, err := q.RoundsOf(ctx, db.RoundsOfParams{OrgID: t.OrgID, TaskID: t.ID, AgentID: targetID, Turn: turn})
		if err != nil {
			return nil, fmt.Errorf("count the rounds of %s with %s: %w", t.ID, work.Agent, err)
		}
		if int(rounds) >= own.Agents.Rounds {
			return limit("%s was given work %d times, as often as agents.rounds of %s allows", work.Agent, rounds, own.Name), nil
		}
	}
	return s.limits(ctx, q, t, chain, work)
}

// limits returns which limit of those above is reached, or nil.
func (s *Service) limits(ctx context.Context, q *db.Queries, t db.Task, chain chain, work tool.SubtaskSpec) (*fault.Error, error) {
	above := chain.parents()
	if work.Manifest != nil {
		above = above[1:] // the target takes the source's place
	}
	if len(above) == 0 {
		return nil, nil
	}
	ids := make([]string, len(above))
	for i, up := range above {
		ids[i] = up.ID
	}
	counts, err := q.CountBelow(ctx, db.CountBelowParams{OrgID: t.OrgID, Ids: ids})
	if err != nil {
		return nil, fmt.Errorf("count the subtasks above %s: %w", t.ID, err)
	}
	below := map[string]int{}
	for _, c := range counts {
		below[c.ID] = int(c.Tasks)
	}
	for i, up := range above {
		p, err := s.cfg.Agents.PersonaOf(ctx, q, t.OrgID, up.AgentID, up.AgentVersion)
		if err != nil {
			return nil, err
		}
		if i+1 > p.Limits.Depth {
			return limit("it would be %d levels below task %s of %s, whose limits.depth is %d", i+1, up.ID, p.Name, p.Limits.Depth), nil
		}
		if n := below[up.ID]; n >= p.Limits.Subtasks {
			return limit("there are %d subtasks below task %s of %s, whose limits.subtasks is %d", n, up.ID, p.Name, p.Limits.Subtasks), nil
		}
	}
	return nil, nil
}

func limit(format string, args ...any) *fault.Error {
	return fault.New(fault.Exhausted, format, args...).WithCode(fault.BudgetLimit).WithFix("do the rest yourself, or end the task and say what is left")
}

// permitted refuses work for an agent that the persona does not name.
func permitted(own *persona.Persona, work tool.SubtaskSpec) *fault.Error {
	key, names := targets(own, work)
	for _, name := range names {
		if name == work.Agent {
			return nil
		}
	}
	e := fault.New(fault.Denied, "%s of persona %s does not list %q", key, own.Name, work.Agent).WithCode(fault.PermissionDenied)
	if len(names) == 0 {
		return e.WithFix("do it yourself: it lists no agent")
	}
	return e.WithFix("use one of %s", strings.Join(nearest.Sort(work.Agent, names), ", "))
}
