package task

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/hold"
	"github.com/deckhand-sh/deckhand/internal/coalesce"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	"github.com/deckhand-sh/deckhand/internal/traceparent"
	"github.com/deckhand-sh/deckhand/internal/ttlcache"
)

// DefaultPriority is that of tasks that are submitted without one.
const DefaultPriority = 5

// Config holds the dependencies of a Service.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Agents   *agent.Service
	// Usable refuses a model that the organisation cannot call; nil for none.
	Usable func(ctx context.Context, q *db.Queries, orgID, provider, model string) error
	// Quota refuses submissions where an organisation wants that; nil for never.
	Quota Quota
}

// Quota says whether new runs are refused when none is left, and refuses one.
type Quota interface {
	Blocks(ctx context.Context, q *db.Queries, orgID string) (bool, error)
	CheckRun(ctx context.Context, q *db.Queries, orgID, user string) error
}

// Service submits, finds and cancels tasks.
type Service struct {
	cfg Config
	// paces are how long tasks took lately, by organisation and agent.
	paces *ttlcache.Cache[string, db.TaskPaceRow]
	// looks are at an organisation's queue.
	looks coalesce.Group[string, places]
}

// NewService creates a Service.
func NewService(cfg Config) *Service {
	return &Service{cfg: cfg, paces: ttlcache.New[string, db.TaskPaceRow](rememberedPaces, paceFor)}
}

// Input is a file put into the workspace before the first step.
type Input struct {
	Path    string
	Content []byte
}

// maxInputBytes bounds all inputs of a task together.
const maxInputBytes = 32 << 20

// Message is a message of a conversation before a task.
type Message struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// Submission is a task as it is asked for.
type Submission struct {
	OrgID string
	// AgentID is the agent that does the task; empty for a person, or if it is not
	// assigned.
	AgentID string
	// Human is the user who is to do the task; empty for an agent, or if it is not
	// assigned.
	Human string
	Goal  string
	// Context and Conversation are additional input for the agent.
	Context      string
	Conversation []Message
	// After are the tasks that must succeed first.
	After          []string
	Title          string
	Priority       int32
	Inputs         []Input
	IdempotencyKey string
	By             event.Actor
	Role           string
	// For is the user whom the task runs for if By is not a user; empty for By.
	For string
	// TriggerID is what fired it; empty for a person's own.
	TriggerID string
	// Origin is the task that this one retries or is resumed from; both share a lineage.
	Origin   *db.Task
	Override Override
	// TaskType is what it is counted under in statistics; empty for what the persona says,
	// else the agent's name.
	TaskType string
	// Parent created the task with the step ParentStep, and waits for it; with no step a program
	// in its jail did, and nothing waits. Source handed
	// its work over with Manifest. With either, the task runs for the same user and
	// shares the lineage.
	Parent     *db.Task
	ParentStep string
	Source     *db.Task
	Manifest   json.RawMessage
	// With stores something with the task, in the transaction that makes it; nil
	// for nothing.
	With WithTask

	// resumedAt is the iteration of the origin that the task is resumed from.
	resumedAt int32
	// resumedTurn has it go on with the turn after that as well.
	resumedTurn bool
	// also is done in the transaction that stores the task.
	also func(tx *event.Tx, t db.Task) error
}

// ManualTrigger is the trigger of tasks that people submit.
const ManualTrigger = "manual"

// Submit stores a task: queued, or pending while it waits for other tasks or is not
// assigned. A submission that is repeated with its idempotency key returns the first
// task. While a hold is active on the task's scope, submission is refused.
func (s *Service) Submit(ctx context.Context, sub Submission) (row db.GetTaskRow, err error) {
	d, err := s.Draft(ctx, sub)
	if err != nil {
		return row, err
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) (err error) {
		row, err = d.Store(ctx, tx)
		return err
	})
	return row, err
}

// refuseOverQuota refuses a submission for which no run is left, if the organisation wants that,
// unless it repeats one.
func refuseOverQuota(ctx context.Context, quota Quota, tx *event.Tx, p db.CreateTaskParams) error {
	if quota == nil || p.AgentID == "" {
		return nil
	}
	if blocks, err := quota.Blocks(ctx, tx.Queries, p.OrgID); err != nil || !blocks {
		return err
	}
	// The last lock: what triggers and agents submit holds those of a trigger, or of the task that
	// it is part of.
	if err := tx.LockSubmissions(ctx, p.OrgID); err != nil {
		return fmt.Errorf("lock the submissions of %s: %w", p.OrgID, err)
	}
	if p.IdempotencyKey != nil {
		_, err := tx.TaskByIdempotencyKey(ctx, db.TaskByIdempotencyKeyParams{OrgID: p.OrgID, IdempotencyKey: p.IdempotencyKey})
		if err == nil {
			return nil
		}
		if !store.IsNotFound(err) {
			return fmt.Errorf("find task by idempotency key: %w", err)
		}
	}
	return quota.CheckRun(ctx, tx.Queries, p.OrgID, p.CreatedBy)
}

// Draft is a submission that is ready to be stored.
type Draft struct {
	sub    Submission
	params db.CreateTaskParams
	with   runs
	quota  Quota
}

// Draft looks up what a submission needs.
func (s *Service) Draft(ctx context.Context, sub Submission) (*Draft, error) {
	if err := checkInputs(sub.Inputs); err != nil {
		return nil, err
	}
	if err := checkChat(sub); err != nil {
		return nil, err
	}
	d := &Draft{sub: sub, quota: s.cfg.Quota}
	var err error
	if d.params, d.with, err = s.params(ctx, sub); err != nil {
		return nil, err
	}
	name, model := sub.Override.Runs(d.with.provider, d.with.model)
	return d, s.usable(ctx, sub.OrgID, d.with.name, name, model)
}

// usable refuses a task whose agent could not ask its model.
func (s *Service) usable(ctx context.Context, orgID, agentName, provider, model string) error {
	if provider == "" || s.cfg.Usable == nil {
		return nil // not assigned, or assigned to a person
	}
	err := s.cfg.Usable(ctx, s.cfg.Store.Queries, orgID, provider, model)
	if e := fault.As(err); e != nil && e.Kind == fault.Precondition {
		return fault.New(e.Kind, "agent %s cannot run: %s", agentName, e.Message).WithCode(e.Code).WithFix("%s", e.Fix).WithObject(provider)
	}
	return err
}

// Store creates the task in a transaction; see Submit.
func (d *Draft) Store(ctx context.Context, tx *event.Tx) (db.GetTaskRow, error) {
	sub, params, with := d.sub, d.params, d.with
	row := db.GetTaskRow{AgentName: with.name}
	row.Provider, row.Model = sub.Override.Runs(with.provider, with.model)
	if err := startable(ctx, tx, sub.OrgID, params.AgentID); err != nil {
		return row, err
	}
	after, err := lockDependencies(ctx, tx, sub.OrgID, sub.After)
	if err != nil {
		return row, err
	}
	if err := refuseOverQuota(ctx, d.quota, tx, params); err != nil {
		return row, err
	}
	params.State, params.Reason = string(Queued), "just submitted"
	if why := waitsFor(after, Assignee{AgentID: sub.AgentID, Human: sub.Human}); why != "" {
		params.State, params.Reason = string(Pending), why
	}
	t, err := tx.CreateTask(ctx, params)
	if store.IsNotFound(err) {
		return notCreated(ctx, tx, params)
	}
	if err != nil {
		return row, fmt.Errorf("store task: %w", err)
	}
	row.Task = t
	if err := storeDependencies(ctx, tx, t, after); err != nil {
		return row, err
	}
	for _, in := range sub.Inputs {
		if err := tx.CreateTaskInput(ctx, db.CreateTaskInputParams{
			TaskID: t.ID, Path: in.Path, OrgID: sub.OrgID, Content: in.Content,
		}); err != nil {
			return row, fmt.Errorf("store input %s: %w", in.Path, err)
		}
	}
	if sub.With != nil {
		if err := sub.With(ctx, tx, t); err != nil {
			return row, err
		}
	}
	if sub.also != nil {
		if err := sub.also(tx, t); err != nil {
			return row, err
		}
	}
	tx.Publish(change.QueueChanged{OrgID: sub.OrgID})
	return row, tx.Append(sub.OrgID, t.ID, sub.By, event.Draft{Type: eventkind.TaskSubmitted, Payload: d.payload(row)})
}

// payload returns the payload of the submission's event.
func (d *Draft) payload(row db.GetTaskRow) map[string]any {
	sub := d.sub
	payload := map[string]any{
		"agent": d.with.name, "agent_version": d.with.version, "goal": d.params.Goal,
		"priority": d.params.Priority, "inputs": len(sub.Inputs), "provider": row.Provider, "model": row.Model,
	}
	if sub.Origin != nil {
		payload["origin_id"], payload["resumed_at"] = sub.Origin.ID, row.Task.ResumedAt
	}
	if len(sub.After) > 0 {
		payload["after"] = sub.After
	}
	if o := sub.Override; o.Mode != "" || o.Provider != "" || o.Limits != (Limits{}) {
		payload["override"] = map[string]any{"mode": o.Mode, "provider": o.Provider, "model": o.Model, "limits": o.Limits}
	}
	if sub.Human != "" {
		payload["assignee"] = sub.Human
	}
	if sub.Parent != nil {
		payload["parent_id"], payload["parent_step_id"] = sub.Parent.ID, sub.ParentStep
	}
	if sub.Source != nil {
		payload["handed_from"] = sub.Source.ID
	}
	return payload
}

// viewer is on whose behalf the task's agent is found: whoever the task runs for. What an
// agent gives to another one was checked with the rights of its persona's applier, and what
// the hub starts by itself has none to check.
func (sub *Submission) viewer() visibility.Viewer {
	if sub.Parent != nil || sub.Source != nil || sub.For == "" && sub.By.Kind != event.User {
		return visibility.Hub(sub.OrgID)
	}
	return visibility.As(sub.OrgID, cmp.Or(sub.For, sub.By.ID), sub.Role)
}

// params puts together the row of a submission.
func (s *Service) params(ctx context.Context, sub Submission) (db.CreateTaskParams, runs, error) {
	params := db.CreateTaskParams{
		ID: ident.New("task"), OrgID: sub.OrgID, Title: sub.Title, Goal: sub.Goal, Priority: sub.Priority,
		Context: sub.Context, Assignee: sub.Human, CreatedBy: cmp.Or(sub.For, sub.By.ID), CreatedByRole: sub.Role,
		CorrelationID: logging.Correlation(ctx), Traceparent: traceparent.Of(ctx), InputCount: int32(len(sub.Inputs)), //nolint:gosec // at most 16
		TriggerID: cmp.Or(sub.TriggerID, ManualTrigger), ResumedAt: sub.resumedAt, ResumedTurn: sub.resumedTurn, TaskType: sub.TaskType,
	}
	with, err := s.runsOn(ctx, sub.viewer(), sub.AgentID, params.ID)
	if err != nil {
		return params, with, err
	}
	if sub.Override.Chat {
		with.apart(params.ID)
	}
	params.AgentID, params.AgentVersion, params.WorkspaceScope, params.JailID = with.agentID, with.version, with.scope, with.jail
	if sub.Conversation == nil {
		sub.Conversation = []Message{}
	}
	if params.Conversation, err = json.Marshal(sub.Conversation); err != nil {
		return params, with, fmt.Errorf("encode the conversation: %w", err)
	}
	params.LineageID, params.Devcontainer = params.ID, []byte("{}")
	if sub.Origin != nil {
		params.OriginID, params.LineageID = &sub.Origin.ID, sub.Origin.LineageID
		params.Image, params.ImageDigest, params.Devcontainer = sub.Origin.Image, sub.Origin.ImageDigest, sub.Origin.Devcontainer
	}
	sub.kin(&params)
	if params.Override, err = sub.Override.Column(); err != nil {
		return params, with, err
	}
	if params.Goal == "" && with.agentID == "" {
		return params, with, fault.New(fault.Invalid, "goal is empty").WithFix("say what is to be done")
	}
	params.Goal = cmp.Or(params.Goal, with.goal, "Follow your standing instructions.")
	params.Title = cmp.Or(params.Title, titleOf(params.Goal))
	params.Priority = cmp.Or(params.Priority, DefaultPriority)
	if sub.resumedAt > 0 && with.scope == string(persona.ScopeTask) && sub.Origin.WorkspaceScope == with.scope {
		// It continues with the existing files.
		params.JailID, params.NodeID = sub.Origin.JailID, sub.Origin.NodeID
	}
	if sub.IdempotencyKey != "" {
		params.IdempotencyKey = &sub.IdempotencyKey
	}
	return params, with, nil
}

// kin copies to the task what it inherits from its origin, parent or source.
func (sub *Submission) kin(params *db.CreateTaskParams) {
	from := sub.Parent
	if from != nil {
		params.ParentID = &from.ID
		if sub.ParentStep != "" {
			params.ParentStepID = &sub.ParentStep
		}
	}
	if sub.Source != nil {
		// Tasks that wait for the source now wait for the one that takes over.
		from = sub.Source
		params.HandedFrom, params.Manifest = &from.ID, sub.Manifest
		params.ParentID, params.ParentStepID = from.ParentID, from.ParentStepID
	}
	if from == nil {
		return
	}
	params.LineageID, params.CreatedBy, params.CreatedByRole = from.LineageID, from.CreatedBy, from.CreatedByRole
	params.TriggerID, params.Priority = from.TriggerID, from.Priority
	params.CorrelationID, params.Traceparent = from.CorrelationID, from.Traceparent
}

// notCreated returns the task that has the idempotency key, or the refusal because of a
// hold.
func notCreated(ctx context.Context, tx *event.Tx, p db.CreateTaskParams) (db.GetTaskRow, error) {
	if p.IdempotencyKey != nil {
		first, err := tx.TaskByIdempotencyKey(ctx, db.TaskByIdempotencyKeyParams{OrgID: p.OrgID, IdempotencyKey: p.IdempotencyKey})
		switch {
		case err == nil && (first.AgentID != p.AgentID || first.Goal != p.Goal || store.Text(first.OriginID) != store.Text(p.OriginID)):
			return db.GetTaskRow{}, fault.New(fault.Exists, "idempotency_key %q was used for task %s, which has another agent or goal", *p.IdempotencyKey, first.ID).
				WithFix("use a key of its own for each task").WithObject(first.ID)
		case err == nil:
			return tx.GetTask(ctx, db.GetTaskParams{OrgID: p.OrgID, ID: first.ID})
		case !store.IsNotFound(err):
			return db.GetTaskRow{}, fmt.Errorf("find task by idempotency key: %w", err)
		}
	}
	standing, err := hold.Of(ctx, tx.Queries, p.OrgID)
	if err != nil {
		return db.GetTaskRow{}, err
	}
	if h := standing.Task(hold.Task{AgentID: p.AgentID, TriggerID: p.TriggerID, LineageID: p.LineageID}); h != nil {
		return db.GetTaskRow{}, hold.Refuse(h)
	}
	return db.GetTaskRow{}, fault.New(fault.Aborted, "a hold was released while the task was stored").WithFix("submit it again")
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
	return textcut.Runes(line, 80, "…")
}

// Viewer is the user on whose behalf tasks are read. They see the tasks that they
// submitted, that are assigned to them, that an agent of theirs does, and that are not
// assigned; in an organisation that shares its tasks, those of all agents that they see.
// Other tasks do not exist for them.
type Viewer = visibility.Viewer

// Find returns the id of the task that ref names among those that v sees: an id
// or a unique prefix.
func (s *Service) Find(ctx context.Context, v Viewer, ref string) (string, error) {
	rows, err := s.cfg.Store.FindTasks(ctx, db.FindTasksParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Ref: ref, Prefix: store.Prefix("task", ref)})
	return store.One("task", ref, rows, err)
}

// Sees reports whether v sees a task, by its id.
func (s *Service) Sees(ctx context.Context, v Viewer, id string) (bool, error) {
	seen, err := s.cfg.Store.TaskSeen(ctx, db.TaskSeenParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, ID: id})
	if store.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether %q sees task %s: %w", v.Name, id, err)
	}
	return seen, nil
}

// Get returns a task by its id.
func (s *Service) Get(ctx context.Context, orgID, id string) (db.GetTaskRow, error) {
	row, err := s.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, fault.New(fault.NotFound, "there is no task %q", id).WithObject(id)
	}
	return row, err
}

// Filter picks tasks for List.
type Filter struct {
	AgentID  string
	ParentID string
	// LineageID picks the tasks of one lineage.
	LineageID string
	States    []State
	PageSize  int32
	PageToken string
	// Query are words, each of which must occur in the title, the goal or the summary.
	Query string
	// CreatedFrom and CreatedBefore bound when it was made; nil for no bound.
	CreatedFrom, CreatedBefore *time.Time
	// Chat picks chats only.
	Chat bool
	// CreatedBy picks the tasks of who submitted them, by name.
	CreatedBy string
}

// Picks reports whether the filter leaves tasks out.
func (f Filter) Picks() bool {
	return f.AgentID != "" || f.ParentID != "" || f.LineageID != "" || len(f.States) > 0 || strings.TrimSpace(f.Query) != "" ||
		f.CreatedFrom != nil || f.CreatedBefore != nil || f.Chat || f.CreatedBy != ""
}

// List returns a page of the tasks that v sees, newest first, and the next page's token.
func (s *Service) List(ctx context.Context, v Viewer, f Filter) ([]db.ListTasksRow, string, error) {
	params := db.ListTasksParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, MaxRows: f.PageSize + 1}
	if f.AgentID != "" {
		params.AgentID = &f.AgentID
	}
	if f.ParentID != "" {
		params.ParentID = &f.ParentID
	}
	if f.LineageID != "" {
		params.LineageID = &f.LineageID
	}
	params.Chat = f.Chat
	for _, st := range f.States {
		params.States = append(params.States, string(st))
	}
	params.Words = strings.Fields(strings.ToLower(f.Query))
	params.CreatedFrom, params.CreatedBefore = f.CreatedFrom, f.CreatedBefore
	if f.CreatedBy != "" {
		params.CreatedBy = &f.CreatedBy
	}
	s.cfg.Store.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := params
		all.MaxRows = maxRows
		_, err := q.ListTasks(ctx, all)
		return err
	})
	if f.PageToken != "" {
		at, id, err := store.ParsePageToken(f.PageToken)
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
	return rows, store.PageToken(last.CreatedAt, last.ID), nil
}
