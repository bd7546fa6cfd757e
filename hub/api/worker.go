package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/learn/pattern"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/admission"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/attempt"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/outage"
	"github.com/deckhand-sh/deckhand/hub/work/quota"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// executeWait is how long ExecuteStep waits before it returns a step in its current
// state: short enough for any proxy between worker and hub.
const executeWait = 20 * time.Second

// maxRetryAfter is the longest time that a worker may make a task wait for its next
// attempt.
const maxRetryAfter = time.Hour

// maxPause is the longest time after which a paused task resumes by itself: quotas are of
// a month at most.
const maxPause = 32 * 24 * time.Hour

// maxProblem limits the length, in bytes, of one error message about an unavailable MCP
// server.
const maxProblem = 2000

// renewalsPerLease is how often a worker renews in one lease's time.
const renewalsPerLease = 3

// Workers serves WorkerService.
type Workers struct {
	Store    *store.Store
	Bus      *bus.Bus
	Leases   *lease.Leases
	Reports  *attempt.Reports
	Steps    *step.Steps
	Inbox    *inbox.Service
	Agents   *agent.Service
	Tools    *tool.Registry
	Plans    *quota.Service
	Patterns *pattern.Service
	Redact   *redact.Redactor
	// Memories are told to runs.
	Memories *memory.Memories
	Log      hclog.Logger
	// Draining ends when the hub is about to stop: waiting calls answer then.
	Draining context.Context
}

// RegisterWorker registers a worker.
func (h *Workers) RegisterWorker(ctx context.Context, req *deckhandv1.RegisterWorkerRequest) (*deckhandv1.RegisterWorkerResponse, error) {
	org := auth.From(ctx).OrgID
	pool := req.GetPool()
	if pool == "" {
		pool = bus.DefaultPool
	}
	scope := auth.From(ctx).Scope
	if err := scope.Pool(pool); err != nil {
		return nil, err
	}
	id, err := h.Leases.Register(ctx, org, lease.Worker{
		ID: req.GetWorkerId(), Name: req.GetName(), Pool: pool, Slots: req.GetSlots(), Version: req.GetVersion(),
	}, scope.Pools...)
	if err != nil {
		return nil, err
	}
	access, err := h.Bus.WorkerAccess(ctx, admission.WakePool(org, pool), id)
	if err != nil {
		return nil, fmt.Errorf("give worker %s access to the bus: %w", id, err)
	}
	ttl := h.Leases.TTL()
	return &deckhandv1.RegisterWorkerResponse{
		WorkerId: id, LeaseTtl: durationpb.New(ttl), RenewInterval: durationpb.New(ttl / renewalsPerLease),
		Bus: &deckhandv1.RegisterWorkerResponse_Bus{
			Url: access.URL, Username: access.Username, Password: access.Password, InboxPrefix: access.InboxPrefix,
			Stream: access.Stream, Consumer: access.Consumer, Authority: access.Authority, ServerName: access.ServerName,
		},
	}, nil
}

// ClaimTask takes the lease on an admitted task.
func (h *Workers) ClaimTask(ctx context.Context, req *deckhandv1.ClaimTaskRequest) (*deckhandv1.ClaimTaskResponse, error) {
	who := auth.From(ctx)
	le, t, err := h.Leases.Claim(ctx, who.OrgID, req.GetWorkerId(), req.GetTaskId(), req.GetAttempt(), who.Scope.Pools...)
	if err != nil {
		return nil, err
	}
	if le == nil {
		return &deckhandv1.ClaimTaskResponse{}, nil
	}
	res, err := h.claimed(ctx, *t)
	if err != nil {
		return nil, err
	}
	res.Claimed, res.Started = true, task.State(t.State) == task.Running
	res.Lease = &deckhandv1.Lease{TaskId: le.TaskID, Attempt: le.Attempt, Token: le.Token}
	res.LeaseTtl = durationpb.New(h.Leases.TTL())
	return res, nil
}

// claimed returns everything that a worker needs to begin or continue a task.
func (h *Workers) claimed(ctx context.Context, t db.Task) (*deckhandv1.ClaimTaskResponse, error) {
	version, err := h.Agents.Version(ctx, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	runs, err := h.Agents.Persona(version.Digest, version.Markdown)
	if err != nil {
		return nil, err
	}
	if runs, err = task.EffectivePersona(t, runs); err != nil {
		return nil, err
	}
	provider, model, err := task.ModelOf(t, version)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ClaimTaskResponse{
		Task: taskMessage(t, runs.Name, provider, model), Markdown: version.Markdown, Script: version.Script, Tools: h.Tools.Offered(runs, provider, model),
		Traceparent: t.Traceparent,
	}
	if res.Memories, res.Speed, err = h.told(ctx, t, runs); err != nil {
		return nil, err
	}
	if res.Tools, err = h.nameTargets(ctx, visibility.As(t.OrgID, version.CreatedBy, version.CreatedByRole), runs, res.GetTools()); err != nil {
		return nil, err
	}
	if runs.Context.Patterns {
		res.Pattern = h.Patterns.Offer(ctx, t, runs.Name)
	}
	if t.Attempt == 1 && t.ResumedAt == 0 && t.MessagesWaiting == 0 {
		return res, h.shorten(ctx, t, runs, res) // nothing is left of earlier attempts
	}
	past, err := h.Reports.Past(ctx, t)
	if err != nil {
		return nil, err
	}
	res.Turns = past.Turns
	for _, s := range past.Steps {
		m, err := h.withImages(ctx, s)
		if err != nil {
			return nil, err
		}
		res.Steps = append(res.Steps, m)
	}
	for _, m := range past.Messages {
		res.Messages = append(res.Messages, taskMessageOf(m))
	}
	if c := past.Checkpoint; c != nil {
		res.Checkpoint = &deckhandv1.Checkpoint{Iteration: c.Iteration, State: object(c.State), CreatedAt: timestamppb.New(c.CreatedAt)}
	}
	return res, h.shorten(ctx, t, runs, res)
}

// tellWithin is how long a claim waits for what its run is told.
const tellWithin = 2 * time.Second

// told returns what a task's run is told of the memory, and how fast its user wants it to work:
// nothing if that fails or takes longer than tellWithin, since a run can do without it.
func (h *Workers) told(ctx context.Context, t db.Task, p *persona.Persona) (out []*deckhandv1.ClaimTaskResponse_ToldMemory, speed string, err error) {
	limited, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	told, err := h.Memories.ForRun(limited, t, p.Context.MemoryTokens)
	if err != nil && ctx.Err() == nil {
		h.Log.Warn("a run begins without what the memory has for it", "task_id", t.ID, "error", err)
		return nil, "", nil
	}
	for _, m := range told {
		if m.Standing && m.Type == string(memory.Preference) && m.Key == memory.Speed {
			speed = memory.Text(m.Value)
		}
		out = append(out, &deckhandv1.ClaimTaskResponse_ToldMemory{
			MemoryId: m.ID, Scope: m.ScopeKind, Type: m.Type, Key: m.Key, Text: m.Text, Standing: m.Standing, Source: m.Source,
		})
	}
	return out, speed, err
}

// nameTargets lists in the schemas of delegate and handoff_to_agent which agents they take,
// with what each is for that v sees.
func (h *Workers) nameTargets(ctx context.Context, v visibility.Viewer, p *persona.Persona, tools []*deckhandv1.Tool) ([]*deckhandv1.Tool, error) {
	if len(p.Agents.Delegate)+len(p.Agents.Handoff) == 0 {
		return tools, nil
	}
	names, err := visibility.Names(ctx, h.Store.Queries, v, slices.Concat(p.Agents.Delegate, p.Agents.Handoff))
	if err != nil {
		return nil, err
	}
	rows, err := h.Store.AgentDescriptions(ctx, db.AgentDescriptionsParams{OrgID: v.OrgID, Names: names})
	if err != nil {
		return nil, fmt.Errorf("read the descriptions of agents: %w", err)
	}
	about := map[string]string{}
	for _, row := range rows {
		about[row.Name] = row.Description
	}
	for i, one := range tools {
		tools[i] = tool.WithTargets(one, p, about)
	}
	return tools, nil
}

// shorten limits a run's working time to that of its organisation's plan, and its iterations and
// tokens to what quotas grant it.
func (h *Workers) shorten(ctx context.Context, t db.Task, p *persona.Persona, claim *deckhandv1.ClaimTaskResponse) error {
	subscription, err := h.Plans.Subscription(ctx, h.Store.Queries, t.OrgID)
	if err != nil {
		return err
	}
	m := claim.GetTask()
	limits := &deckhandv1.TaskLimits{}
	if own := m.GetOverride().GetLimits(); own != nil {
		limits = proto.CloneOf(own)
	}
	wanted := cmp.Or(limits.GetActiveTime().AsDuration(), p.Limits.ActiveTime)
	most := subscription.Time(wanted)
	if most != wanted {
		limits.ActiveTime = durationpb.New(most)
	}
	allowed := &deckhandv1.TaskLimits{
		Iterations: cmp.Or(limits.GetIterations(), int32(p.Limits.Iterations)), Tokens: cmp.Or(limits.GetTokens(), p.Limits.Tokens), //nolint:gosec // at most 1000
	}
	m.QuotaLimits = attempt.LowerByQuota(t, allowed, claim.GetTurns())
	if most == wanted && len(m.GetQuotaLimits()) == 0 {
		return nil
	}
	if len(m.GetQuotaLimits()) > 0 {
		err := h.Store.SetQuotaLimits(ctx, db.SetQuotaLimitsParams{OrgID: t.OrgID, ID: t.ID, Attempt: t.Attempt, Limits: m.GetQuotaLimits()})
		if err != nil {
			return fmt.Errorf("store the limits that quotas lower of %s: %w", t.ID, err)
		}
		limits.Iterations, limits.Tokens = allowed.GetIterations(), allowed.GetTokens()
	}
	if m.Override == nil {
		m.Override = &deckhandv1.TaskOverride{}
	}
	m.Override.Limits = limits
	return nil
}

// RenewLeases renews all of a worker's leases.
func (h *Workers) RenewLeases(ctx context.Context, req *deckhandv1.RenewLeasesRequest) (*deckhandv1.RenewLeasesResponse, error) {
	leases := make([]lease.Lease, len(req.GetLeases()))
	for i, l := range req.GetLeases() {
		leases[i] = leaseOf(l)
	}
	renewals, draining, err := h.Leases.Renew(ctx, auth.From(ctx).OrgID, req.GetWorkerId(), maskOf(ctx, h.Redact).String(req.GetPressure()), leases)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.RenewLeasesResponse{Draining: draining}
	for _, r := range renewals {
		res.Renewals = append(res.Renewals, &deckhandv1.RenewLeasesResponse_Renewal{TaskId: r.TaskID, Held: r.Held, Deferred: r.Deferred, Reason: r.Reason})
	}
	return res, nil
}

// StartTask creates the jail and moves the task to running.
func (h *Workers) StartTask(ctx context.Context, req *deckhandv1.StartTaskRequest) (*deckhandv1.StartTaskResponse, error) {
	p, err := h.Steps.Prepare(ctx, auth.From(ctx).OrgID, leaseOf(req.GetLease()), h.Leases.Check)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.StartTaskResponse{
		NodeId: p.NodeID, JailId: p.JailID, Scratchpad: p.Project.Scratchpad, Instructions: p.Project.Instructions,
		GitBranch: maskOf(ctx, h.Redact).String(p.Project.Branch), GitStatus: maskOf(ctx, h.Redact).String(p.Project.GitStatus),
		Platform: p.Platform,
	}
	for _, skill := range p.Project.Skills {
		res.Skills = append(res.Skills, &deckhandv1.StartTaskResponse_Skill{
			Name: maskOf(ctx, h.Redact).String(skill.Name), Description: maskOf(ctx, h.Redact).String(skill.Description), Path: skill.Path,
		})
	}
	res.Tools = p.Tools
	for _, problem := range p.Problems {
		res.Problems = append(res.Problems, textcut.Bytes(problem, maxProblem, ""))
	}
	return res, nil
}

// RecordEvents appends to the task's history.
func (h *Workers) RecordEvents(ctx context.Context, req *deckhandv1.RecordEventsRequest) (*deckhandv1.RecordEventsResponse, error) {
	seq, err := h.Reports.Events(ctx, auth.From(ctx).OrgID, leaseOf(req.GetLease()), req.GetBatch(), drafts(req.GetEvents()))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.RecordEventsResponse{Seq: seq}, nil
}

// PublishThinking passes on a piece of a turn that is still being streamed.
func (h *Workers) PublishThinking(ctx context.Context, req *deckhandv1.PublishThinkingRequest) (*deckhandv1.PublishThinkingResponse, error) {
	t, err := h.Leases.Check(ctx, leaseOf(req.GetLease()))
	if err != nil {
		return nil, err
	}
	if org := auth.From(ctx).OrgID; t.OrgID != org {
		return nil, lease.Stale(leaseOf(req.GetLease()))
	}
	text := []byte(req.GetText())
	settled := maskOf(ctx, h.Redact).Mask(text)
	for settled < len(text) && settled > 0 && !utf8.RuneStart(text[settled]) {
		settled--
	}
	if settled == 0 {
		return &deckhandv1.PublishThinkingResponse{}, nil
	}
	piece, err := proto.Marshal(&deckhandv1.Thinking{
		TaskId: t.ID, Attempt: t.Attempt, Turn: req.GetTurn(), Offset: req.GetOffset(), Text: string(text[:settled]),
	})
	if err != nil {
		return nil, fmt.Errorf("encode thinking: %w", err)
	}
	if err := h.Bus.PublishThinking(t.OrgID, t.ID, piece); err != nil {
		return nil, err
	}
	return &deckhandv1.PublishThinkingResponse{Settled: int32(settled)}, nil //nolint:gosec // 64 KiB at most
}

// RecordTurn stores a finished model turn.
func (h *Workers) RecordTurn(ctx context.Context, req *deckhandv1.RecordTurnRequest) (*deckhandv1.RecordTurnResponse, error) {
	m := req
	turn, steps, err := h.Reports.Turn(ctx, auth.From(ctx).OrgID, leaseOf(m.GetLease()), m.GetTurn(), drafts(m.GetEvents()), m.GetPropose())
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.RecordTurnResponse{Turn: turn}
	for _, s := range steps {
		res.Steps = append(res.Steps, stepMessage(s))
	}
	return res, nil
}

// ProposeStep asks the hub to decide one tool call.
func (h *Workers) ProposeStep(ctx context.Context, req *deckhandv1.ProposeStepRequest) (*deckhandv1.ProposeStepResponse, error) {
	m := req
	s, err := h.Steps.Propose(ctx, auth.From(ctx).OrgID, leaseOf(m.GetLease()), step.Proposal{
		Turn: m.GetTurn(), CallIndex: m.GetCallIndex(), CallID: m.GetCallId(), Tool: m.GetTool(),
		ArgumentsJSON: m.GetArgumentsJson(), Reasoning: m.GetReasoning(), AtOnce: m.GetAtOnce(),
	})
	if err != nil {
		return nil, err
	}
	return &deckhandv1.ProposeStepResponse{Step: stepMessage(s)}, nil
}

// ExecuteStep runs a granted step or re-attaches to a started one.
func (h *Workers) ExecuteStep(ctx context.Context, req *deckhandv1.ExecuteStepRequest) (*deckhandv1.ExecuteStepResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, executeWait)
	defer cancel()
	ctx, release := until(ctx, h.Draining)
	defer release()
	s, err := h.Steps.Execute(ctx, auth.From(ctx).OrgID, leaseOf(req.GetLease()), req.GetStepId())
	if err != nil {
		return nil, err
	}
	m, err := h.withImages(ctx, s)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.ExecuteStepResponse{Step: m}, nil
}

// withImages returns a step with the images of its result.
func (h *Workers) withImages(ctx context.Context, s db.Step) (*deckhandv1.Step, error) {
	m := stepMessage(s)
	if m.GetOutcome().GetFields()["images"].GetNumberValue() == 0 {
		return m, nil
	}
	images, err := h.Steps.Images(ctx, s.OrgID, s.TaskID, s.ID)
	m.Images = slices.DeleteFunc(images[s.ID], (*deckhandv1.Image).GetForPeople)
	return m, err
}

// SaveCheckpoint stores the loop's state at an iteration boundary.
func (h *Workers) SaveCheckpoint(ctx context.Context, req *deckhandv1.SaveCheckpointRequest) (*deckhandv1.SaveCheckpointResponse, error) {
	m := req
	told, err := h.Reports.Checkpoint(ctx, auth.From(ctx).OrgID, leaseOf(m.GetLease()), *checkpointOf(m.GetCheckpoint(), m.GetProgress()), drafts(m.GetEvents()))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.SaveCheckpointResponse{}
	for _, m := range told {
		res.Messages = append(res.Messages, taskMessageOf(m))
	}
	return res, nil
}

// retryAfter returns the shortest time that a task waits before it continues by itself.
func retryAfter(m *deckhandv1.FinishTaskRequest) time.Duration {
	most := maxRetryAfter
	if m.GetState() == deckhandv1.TaskState_TASK_STATE_PAUSED {
		most = maxPause
	}
	return min(m.GetRetryAfter().AsDuration(), most)
}

// checkpointOf returns nil if there is no checkpoint.
func checkpointOf(c *deckhandv1.Checkpoint, progress float64) *attempt.Checkpoint {
	if c == nil {
		return nil
	}
	return &attempt.Checkpoint{Iteration: c.GetIteration(), State: c.GetState().AsMap(), Progress: progress}
}

// FinishTask moves the task to the state in which its loop ended.
func (h *Workers) FinishTask(ctx context.Context, req *deckhandv1.FinishTaskRequest) (*deckhandv1.FinishTaskResponse, error) {
	m := req
	if err := h.Reports.Finish(ctx, auth.From(ctx).OrgID, leaseOf(m.GetLease()), attempt.Outcome{
		State: taskStates[m.GetState()], Reason: m.GetReason(), Summary: m.GetSummary(),
		ErrorCode: m.GetErrorCode(), ErrorMessage: m.GetErrorMessage(), Events: drafts(m.GetEvents()),
		Boundary:  checkpointOf(m.GetCheckpoint(), m.GetProgress()),
		Limit:     m.GetLimit(),
		Transient: m.GetTransient(), RetryAfter: retryAfter(m),
		Outage: outage.Model{Provider: m.GetOutage().GetProvider(), Name: m.GetOutage().GetModel()},
	}); err != nil {
		return nil, err
	}
	return &deckhandv1.FinishTaskResponse{}, nil
}

// ReleaseTask hands the task back to the queue.
func (h *Workers) ReleaseTask(ctx context.Context, req *deckhandv1.ReleaseTaskRequest) (*deckhandv1.ReleaseTaskResponse, error) {
	if err := h.Leases.Release(ctx, auth.From(ctx).OrgID, leaseOf(req.GetLease()), req.GetReason()); err != nil {
		return nil, err
	}
	return &deckhandv1.ReleaseTaskResponse{}, nil
}

// YieldTask ends an attempt whose next call waits for a person.
func (h *Workers) YieldTask(ctx context.Context, req *deckhandv1.YieldTaskRequest) (*deckhandv1.YieldTaskResponse, error) {
	org, m := auth.From(ctx).OrgID, req
	if err := h.Inbox.Yield(ctx, org, leaseOf(m.GetLease()), drafts(m.GetEvents())); err != nil {
		return nil, err
	}
	return &deckhandv1.YieldTaskResponse{}, nil
}
