package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/artifact"
	"github.com/deckhand-sh/deckhand/hub/work/estimate"
	"github.com/deckhand-sh/deckhand/hub/work/job"
	"github.com/deckhand-sh/deckhand/hub/work/subtask"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Tasks serves TaskService.
type Tasks struct {
	TaskLogs

	Store    *store.Store
	Tasks    *task.Service
	Agents   *agent.Service
	Steps    *step.Steps
	Subtasks *subtask.Service
	Nodes    *node.Nodes
	// Workspaces knows the workspaces of checkpoints.
	Workspaces *workspace.Workspaces
	Redact     *redact.Redactor
	Artifacts  *artifact.Artifacts
	Jobs       *job.Service
	History    *estimate.History
	Memories   *memory.Memories
	Recorder   *event.Recorder
}

func actor(id auth.Identity) event.Actor {
	return event.Actor{Kind: event.User, ID: id.UserName, Address: id.Address, UserAgent: id.UserAgent}
}

// SubmitTask stores a task and lets admission start it.
func (h *Tasks) SubmitTask(ctx context.Context, req *deckhandv1.SubmitTaskRequest) (*deckhandv1.SubmitTaskResponse, error) {
	id := auth.From(ctx)
	if id.Kind == auth.Program {
		return h.submitByProgram(ctx, id, req)
	}
	to := req.GetAssignTo()
	switch {
	case to == "" && req.GetAgentId() == "":
		return nil, fault.New(fault.Invalid, "agent_id is empty").WithFix("name an agent, or say with assign_to who is to do it")
	case to == "":
		to = "@agent:" + req.GetAgentId()
	case req.GetAgentId() != "":
		return nil, fault.New(fault.Invalid, "agent_id and assign_to are both given").WithFix("give one of them")
	}
	sub := task.Submission{
		OrgID: id.OrgID, Goal: req.GetGoal(), Title: req.GetTitle(), Priority: req.GetPriority(),
		Context: req.GetContext(), IdempotencyKey: req.GetIdempotencyKey(), By: actor(id), Role: id.Role,
		TaskType: req.GetTaskType(),
	}
	who, err := assignee(ctx, h.Agents, h.Tasks, id.OrgID, to)
	if err != nil {
		return nil, err
	}
	sub.AgentID, sub.Human = who.AgentID, who.Human
	for _, m := range req.GetConversation() {
		sub.Conversation = append(sub.Conversation, task.Message{Role: m.GetRole(), Text: m.GetText()})
	}
	for _, in := range req.GetInputs() {
		sub.Inputs = append(sub.Inputs, task.Input{Path: in.GetPath(), Content: in.GetContent()})
	}
	for _, ref := range req.GetAfter() {
		after, err := h.Tasks.Find(ctx, viewer(ctx), ref)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(sub.After, after) {
			sub.After = append(sub.After, after)
		}
	}
	if sub.With, err = h.artifacts(ctx, req.GetArtifacts()); err != nil {
		return nil, err
	}
	if o := req.GetOverride(); o != nil {
		if sub.Override, err = h.overridden(ctx, id, sub.AgentID, o); err != nil {
			return nil, err
		}
	}
	sub.Override.Chat = req.GetChat()
	if err := preferred(ctx, h, id, sub.AgentID, &sub.Override); err != nil {
		return nil, err
	}
	if sub.Override.Chat && len(req.GetArtifacts()) > 0 {
		return nil, fault.New(fault.Invalid, "a chat takes no artifacts: its agent could not read them").
			WithFix("say what they hold, or submit a task")
	}
	if ref := req.GetReplyTo(); ref != "" {
		if !req.GetChat() {
			return nil, fault.New(fault.Invalid, "reply_to goes with chat only").WithFix("set chat, or leave reply_to out")
		}
		if ref, err = h.Tasks.Find(ctx, viewer(ctx), ref); err != nil {
			return nil, err
		}
		if sub, err = h.Tasks.Reply(ctx, sub, ref); err != nil {
			return nil, err
		}
	}
	row, err := h.Tasks.Submit(ctx, sub)
	if err != nil {
		return nil, err
	}
	m := taskRow(row)
	m.After = sub.After
	standings, err := h.Tasks.Standings(ctx, id.OrgID, row.Task)
	if err != nil {
		return nil, err
	}
	st, ok := standings[row.Task.ID]
	m.Standing = standing(st, ok)
	res := &deckhandv1.SubmitTaskResponse{Task: m, QueuePosition: st.Place}
	if row.Task.AgentID != "" {
		// The task is stored: an estimate that cannot be made is no reason to fail.
		if e, err := h.History.Before(ctx, id.OrgID, row.Task.AgentID); err == nil {
			res.Estimate = estimateMessage(e)
		}
	}
	return res, nil
}

func taskRow(row db.GetTaskRow) *deckhandv1.Task {
	m := taskMessage(row.Task, row.AgentName, row.Provider, row.Model)
	m.EventSeq = row.EventSeq
	return m
}

// GetTask returns one task.
func (h *Tasks) GetTask(ctx context.Context, req *deckhandv1.GetTaskRequest) (*deckhandv1.GetTaskResponse, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Tasks.Find(ctx, viewer(ctx), req.GetTaskId())
	if err != nil {
		return nil, err
	}
	row, err := h.Tasks.Get(ctx, org, id)
	if err != nil {
		return nil, err
	}
	m, err := shown(ctx, h.Tasks, row)
	if err != nil {
		return nil, err
	}
	if row.Task.Subtasks > 0 {
		below, err := h.Subtasks.SubtreeUsage(ctx, h.Store.Queries, row.Task)
		if err != nil {
			return nil, err
		}
		m.Subtasks = subtasksMessage(below)
	}
	if err := h.detail(ctx, m, row.Task); err != nil {
		return nil, err
	}
	return &deckhandv1.GetTaskResponse{Task: m}, nil
}

func subtasksMessage(s db.SumBelowRow) *deckhandv1.Subtasks {
	return &deckhandv1.Subtasks{
		Tasks: s.Tasks, Live: s.Live, Succeeded: s.Succeeded, Progress: s.Progress,
		Usage: &deckhandv1.Usage{
			InputTokens: s.InputTokens, OutputTokens: s.OutputTokens, CacheReadTokens: s.CacheReadTokens,
			CacheWriteTokens: s.CacheWriteTokens, CostMicros: s.CostMicros,
		},
	}
}

const tasksPage = 20

// timeOf returns a time that may be unset.
func timeOf(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.AsTime())
}

// picking is a request that picks tasks.
type picking interface {
	GetAgentId() string
	GetStates() []deckhandv1.TaskState
	GetParentId() string
	GetQuery() string
	GetCreatedFrom() *timestamppb.Timestamp
	GetCreatedBefore() *timestamppb.Timestamp
	GetChat() bool
	GetLineageOf() string
}

// pick returns what a request picks of the tasks that the caller sees.
func pick(ctx context.Context, h *Tasks, req picking) (f task.Filter, err error) {
	f = task.Filter{Query: req.GetQuery(), Chat: req.GetChat(), CreatedFrom: timeOf(req.GetCreatedFrom()), CreatedBefore: timeOf(req.GetCreatedBefore())}
	if ref := req.GetAgentId(); ref != "" {
		if f.AgentID, err = h.Agents.FindPast(ctx, viewer(ctx), ref); err != nil {
			return f, err
		}
	}
	if ref := req.GetParentId(); ref != "" {
		if f.ParentID, err = h.Tasks.Find(ctx, viewer(ctx), ref); err != nil {
			return f, err
		}
	}
	if ref := req.GetLineageOf(); ref != "" {
		id, err := h.Tasks.Find(ctx, viewer(ctx), ref)
		if err != nil {
			return f, err
		}
		of, err := h.Tasks.Get(ctx, auth.From(ctx).OrgID, id)
		if err != nil {
			return f, err
		}
		f.LineageID = of.Task.LineageID
	}
	for i, st := range req.GetStates() {
		word, ok := taskStates[st]
		if !ok {
			return f, fault.New(fault.Invalid, "states[%d] is not a task state", i).WithFix("use a state of TaskState")
		}
		f.States = append(f.States, word)
	}
	return f, nil
}

// ListTasks returns tasks, newest first.
func (h *Tasks) ListTasks(ctx context.Context, req *deckhandv1.ListTasksRequest) (*deckhandv1.ListTasksResponse, error) {
	ctx, total := withTotal(ctx, req)
	org := auth.From(ctx).OrgID
	filter, err := pick(ctx, h, req)
	if err != nil {
		return nil, err
	}
	filter.PageSize, filter.PageToken = cmp.Or(req.GetPageSize(), tasksPage), req.GetPageToken()
	rows, next, err := h.Tasks.List(ctx, viewer(ctx), filter)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListTasksResponse{NextPageToken: next}
	tasks := make([]db.Task, len(rows))
	for i, row := range rows {
		tasks[i] = row.Task
	}
	standings, err := h.Tasks.Standings(ctx, org, tasks...)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		m := taskRow(db.GetTaskRow(row))
		st, ok := standings[m.GetId()]
		m.Standing = standing(st, ok)
		res.Tasks = append(res.Tasks, m)
	}
	res.Total, err = totalMessage(total, len(rows), res.GetNextPageToken())
	return res, err
}

const (
	// listPage is how many rows a page of most lists has if the request sets no size.
	listPage = 100
	// stepsBytes is what a page of steps ends with, in bytes.
	stepsBytes = 4 << 20
)

// ListSteps returns a task's steps in order, a page at a time.
func (h *Tasks) ListSteps(ctx context.Context, req *deckhandv1.ListStepsRequest) (*deckhandv1.ListStepsResponse, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Tasks.Find(ctx, viewer(ctx), req.GetTaskId())
	if err != nil {
		return nil, err
	}
	after, err := store.ParseNumberToken(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := cmp.Or(req.GetPageSize(), listPage)
	rows, err := h.Store.ListSteps(ctx, db.ListStepsParams{
		OrgID: org, TaskID: id, StepID: req.GetStepId(), AfterNumber: after, MaxRows: size + 1, MaxBytes: stepsBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("list steps of %s: %w", id, err)
	}
	res := &deckhandv1.ListStepsResponse{}
	for _, row := range rows[:min(len(rows), int(size))] {
		s := stepMessage(listedStep(row))
		if req.GetBrief() {
			shorten(s)
		}
		if req.GetImages() && req.GetStepId() != "" && hasImages(s) {
			images, err := h.Steps.Images(ctx, org, s.GetTaskId(), s.GetId())
			if err != nil {
				return nil, err
			}
			s.Images = images[s.GetId()]
		}
		res.Steps = append(res.Steps, s)
	}
	if err := setApprovals(ctx, h.Store, org, id, res.GetSteps()); err != nil {
		return nil, err
	}
	if n := len(res.GetSteps()); n > 0 && n < int(rows[0].Found) {
		res.NextPageToken = store.NumberToken(rows[n-1].Number)
	}
	return res, nil
}

// hasImages reports whether a step has images, for the model or for people.
func hasImages(s *deckhandv1.Step) bool {
	fields := s.GetOutcome().GetFields()
	return fields["images"].GetNumberValue()+fields["pictures"].GetNumberValue() > 0
}

// briefText is how many characters of an argument a short list has.
const briefText = 200

// shorten leaves of a step what a list of many shows.
func shorten(s *deckhandv1.Step) {
	s.Reasoning, s.Observation, s.DecisionReason, s.Decision, s.ChangedArguments = "", "", "", nil, nil
	for name, v := range s.GetArguments().GetFields() {
		if text := textcut.Runes(v.GetStringValue(), briefText, "…"); text != v.GetStringValue() {
			s.Arguments.Fields[name] = structpb.NewStringValue(text)
		}
	}
}
