package api

import (
	"encoding/json"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/imageref"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The functions below turn rows into messages. Enums have the same words in both, in the
// message with their type's prefix.

func timestamp(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

// object returns a jsonb column as a Struct; the columns hold objects only.
// encoding/json is twice as fast as protojson here.
func object(data json.RawMessage) *structpb.Struct {
	var plain map[string]any
	if err := json.Unmarshal(data, &plain); err != nil {
		return &structpb.Struct{}
	}
	out, err := structpb.NewStruct(plain)
	if err != nil {
		return &structpb.Struct{}
	}
	return out
}

func enumValue(values map[string]int32, prefix, word string) int32 {
	return values[prefix+upper(word)]
}

// enumWord returns an enum value's name in its stored form.
func enumWord(value interface{ String() string }, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(value.String(), prefix))
}

func upper(word string) string {
	out := []byte(word)
	for i, c := range out {
		if c >= 'a' && c <= 'z' {
			out[i] = c - 'a' + 'A'
		}
	}
	return string(out)
}

func taskState(s string) deckhandv1.TaskState {
	return deckhandv1.TaskState(enumValue(deckhandv1.TaskState_value, "TASK_STATE_", s))
}

// taskStates are the states by their number in the API.
var taskStates = func() map[deckhandv1.TaskState]task.State {
	out := map[deckhandv1.TaskState]task.State{}
	for s := range task.Transitions() {
		out[taskState(string(s))] = s
	}
	return out
}()

func taskMessage(t db.Task, agentName, provider, model string) *deckhandv1.Task {
	o, _ := task.OverrideOf(t) // the hub alone writes the column
	return &deckhandv1.Task{
		Chat: o.Chat, Image: pinned(t), TaskType: t.TaskType, ResumedTurn: t.ResumedTurn, Id: t.ID, AgentId: t.AgentID, AgentName: agentName, AgentVersion: t.AgentVersion, Title: t.Title, Goal: t.Goal,
		State: taskState(t.State), Reason: t.Reason, Priority: t.Priority, Attempt: t.Attempt,
		WorkerId: store.Text(t.WorkerID), NodeId: store.Text(t.NodeID), Iteration: t.Iteration, Progress: t.Progress,
		Summary: t.Summary, ErrorCode: t.ErrorCode, ErrorMessage: t.ErrorMessage,
		Usage: &deckhandv1.Usage{
			InputTokens: t.InputTokens, OutputTokens: t.OutputTokens, CacheReadTokens: t.CacheReadTokens,
			CacheWriteTokens: t.CacheWriteTokens, CostMicros: t.CostMicros,
		},
		CorrelationId: t.CorrelationID, CreatedBy: t.CreatedBy, Provider: provider, Model: model,
		CreatedAt: timestamppb.New(t.CreatedAt), StartedAt: timestamp(t.StartedAt), FinishedAt: timestamp(t.FinishedAt),
		Assignee: assigneeOf(t, agentName), AssignedBy: t.AssignedBy, AssignedAt: timestamp(t.AssignedAt),
		Context: t.Context, Conversation: conversation(t.Conversation), NotBefore: timestamp(t.NotBefore),
		Failures: t.Failures, WorkerLosses: t.WorkerLosses,
		LineageId: t.LineageID, OriginId: store.Text(t.OriginID), ResumedAt: t.ResumedAt, TriggerId: t.TriggerID,
		Override: overrideMessage(t), PauseNext: t.PauseNext, MessagesWaiting: t.MessagesWaiting,
		ParentId: store.Text(t.ParentID), HandedFrom: store.Text(t.HandedFrom), Manifest: manifestOf(t),
	}
}

// manifestOf returns what was handed over; nil for nothing.
func manifestOf(t db.Task) *structpb.Struct {
	if t.Manifest == nil {
		return nil
	}
	return object(t.Manifest)
}

// overrideMessage returns the settings that replace those of a task's persona; nil for
// none.
func overrideMessage(t db.Task) *deckhandv1.TaskOverride {
	o, err := task.OverrideOf(t)
	o.Chat = false // that is a field of the task's own
	if err != nil || o == (task.Override{}) {
		return nil // the hub alone writes the column
	}
	out := &deckhandv1.TaskOverride{MemoryBytes: o.MemoryBytes, NodeId: o.NodeID, Provider: o.Provider, Model: o.Model, Mode: string(o.Mode)}
	if l := o.Limits; l != (task.Limits{}) {
		out.Limits = &deckhandv1.TaskLimits{Iterations: l.Iterations, Tokens: l.Tokens, Calls: l.Calls, CostMicros: l.CostMicros, Files: l.Files, FileSizeBytes: l.FileSize}
		if l.ActiveTime > 0 {
			out.Limits.ActiveTime = durationpb.New(l.ActiveTime)
		}
	}
	return out
}

func agentMessage(row db.GetAgentRow) *deckhandv1.Agent {
	a := row.Agent
	status := a.Status
	if row.Listening && status == "idle" {
		status = "listening"
	}
	if row.Active && (status == "idle" || status == "listening") {
		status = "active"
	}
	m := &deckhandv1.Agent{
		Id: a.ID, Name: a.Name, Description: row.Description,
		Status:       deckhandv1.AgentStatus(enumValue(deckhandv1.AgentStatus_value, "AGENT_STATUS_", status)),
		StatusReason: a.StatusReason, Version: a.CurrentVersion, HomeNodeId: store.Text(a.HomeNodeID),
		Provider: row.Provider, Model: row.Model,
		CreatedAt: timestamppb.New(a.CreatedAt), UpdatedAt: timestamppb.New(a.UpdatedAt),
	}
	if a.StatusReason != "" {
		m.StatusSince = timestamppb.New(a.StatusAt)
	}
	m.Owner, m.Visibility = "user:"+a.Owner, a.Visibility
	if a.OwnerTeam != nil {
		m.Owner = "team:" + row.TeamName
	}
	if a.DeletedAt != nil {
		m.DeletedAt, m.DeletedBy = timestamppb.New(*a.DeletedAt), a.DeletedBy
		m.UndeleteUntil = timestamppb.New(a.DeletedAt.Add(agent.UndeleteWithin))
	}
	return m
}

// listedStep returns a step with the columns that a list reads: all that is shown.
func listedStep(s db.ListStepsRow) db.Step {
	return db.Step{
		ID: s.ID, TaskID: s.TaskID, Number: s.Number, Turn: s.Turn, CallIndex: s.CallIndex, CallID: s.CallID, Attempt: s.Attempt, Tool: s.Tool,
		Category: s.Category, Arguments: s.Arguments, Reasoning: s.Reasoning, State: s.State, DecisionReason: s.DecisionReason,
		Observation: s.Observation, Outcome: s.Outcome, ErrorCode: s.ErrorCode, NodeID: s.NodeID, LogBytes: s.LogBytes, ProposedAt: s.ProposedAt,
		StartedAt: s.StartedAt, FinishedAt: s.FinishedAt, ExecID: s.ExecID, ChangedArguments: s.ChangedArguments, ChangedBy: s.ChangedBy,
		Decision: s.Decision,
	}
}

func stepMessage(s db.Step) *deckhandv1.Step {
	m := &deckhandv1.Step{
		Id: s.ID, TaskId: s.TaskID, Number: s.Number, Turn: s.Turn, CallIndex: s.CallIndex, CallId: s.CallID,
		Attempt: s.Attempt, Tool: s.Tool,
		Category:  deckhandv1.ToolCategory(enumValue(deckhandv1.ToolCategory_value, "TOOL_CATEGORY_", s.Category)),
		Arguments: object(s.Arguments), Reasoning: s.Reasoning,
		State:          deckhandv1.StepState(enumValue(deckhandv1.StepState_value, "STEP_STATE_", s.State)),
		DecisionReason: s.DecisionReason, Observation: s.Observation, Outcome: object(s.Outcome), ErrorCode: s.ErrorCode,
		NodeId: store.Text(s.NodeID), LogBytes: s.LogBytes, ProposedAt: timestamppb.New(s.ProposedAt),
		StartedAt: timestamp(s.StartedAt), FinishedAt: timestamp(s.FinishedAt), ExecId: s.ExecID, ChangedBy: s.ChangedBy,
	}
	if s.ChangedArguments != nil {
		m.ChangedArguments = object(s.ChangedArguments)
	}
	var d policy.Decision
	if json.Unmarshal(s.Decision, &d) == nil && (d.Effect != "" || len(d.Dangers) > 0 || d.Version != "") {
		m.Decision = &deckhandv1.Decision{Effect: string(d.Effect), Rule: d.Rule, Version: d.Version, Why: d.Why, Command: d.Command, Dangers: d.Dangers}
	}
	return m
}

func eventMessage(e *db.EventsAfterRow) *deckhandv1.Event {
	payload := object(e.Payload)
	return &deckhandv1.Event{
		Seq: e.Seq, TaskId: e.TaskID, Type: e.Type, Time: timestamppb.New(e.Time), ActorKind: e.ActorKind, ActorId: e.ActorID,
		Attempt: e.Attempt, CorrelationId: e.CorrelationID, Payload: payload, ActorClass: eventkind.ActorClass(e.ActorKind),
		Lifecycle: eventkind.LifecycleOf(e.Type, func(field string) string { return payload.GetFields()[field].GetStringValue() }),
	}
}

// nodeMessage returns a node as a message. seen are the tasks with locks that the caller sees.
func nodeMessage(n node.Record, seen map[string]bool) *deckhandv1.Node {
	status := "disconnected"
	switch {
	case n.Node.RevokedAt != nil:
		status = "revoked"
	case n.Connected:
		status = "connected"
	}
	m := &deckhandv1.Node{
		Id: n.Node.ID, Name: n.Node.Name, Labels: node.Labels(n.Node), Status: status, Version: n.Node.Version,
		Capability: n.Node.Capability, Runtimes: n.Node.Runtimes, CreatedAt: timestamppb.New(n.Node.CreatedAt),
		LastSeenAt: timestamp(n.Node.LastSeenAt), Pressure: n.Node.Pressure,
	}
	for _, s := range node.Skills(n.Node.Skills) {
		m.Skills = append(m.Skills, &deckhandv1.NodeSkill{Name: s.Name, Description: s.Description, Path: s.Path, Problem: s.Problem})
	}
	if n.Node.UpgradeState != "" {
		m.Upgrade = &deckhandv1.NodeUpgrade{Version: n.Node.UpgradeVersion, State: n.Node.UpgradeState, Problem: n.Node.UpgradeProblem}
	}
	if n.Node.DrainedAt != nil {
		m.Drain = &deckhandv1.NodeDrain{By: n.Node.DrainedBy, Reason: n.Node.DrainReason, Since: timestamp(n.Node.DrainedAt)}
	}
	if n.Lock != nil {
		m.Lock = lockMessage(*n.Lock, n.Node.Name, seen)
	}
	return m
}

// lockMessage returns a lock as a message. Of the lock of a task that the caller does not see, it
// has only the times.
func lockMessage(l db.NodeLock, nodeName string, seen map[string]bool) *deckhandv1.NodeLock {
	if l.TaskID != nil && !seen[*l.TaskID] {
		return &deckhandv1.NodeLock{
			Id: l.ID, NodeId: l.NodeID, NodeName: nodeName, By: "an agent's task",
			TakenAt: timestamppb.New(l.TakenAt), ReleasedAt: timestamp(l.ReleasedAt), ExpiresAt: timestamp(l.ExpiresAt),
		}
	}
	return &deckhandv1.NodeLock{
		Id: l.ID, NodeId: l.NodeID, NodeName: nodeName, By: l.UserName, Reason: l.Reason, ExecId: store.Text(l.ExecID),
		TakenAt: timestamppb.New(l.TakenAt), ReleasedAt: timestamp(l.ReleasedAt), ReleasedBy: l.ReleasedBy,
		TaskId: store.Text(l.TaskID), ExpiresAt: timestamp(l.ExpiresAt),
	}
}

func leaseOf(l *deckhandv1.Lease) lease.Lease {
	return lease.Lease{TaskID: l.GetTaskId(), Attempt: l.GetAttempt(), Token: l.GetToken()}
}

func drafts(in []*deckhandv1.EventDraft) []event.Draft {
	out := make([]event.Draft, len(in))
	for i, d := range in {
		out[i] = event.Draft{Type: eventkind.Kind(d.GetType()), Payload: d.GetPayload().AsMap()}
	}
	return out
}

// pinned returns the image of a task's jail by its digest; empty for none.
func pinned(t db.Task) string {
	if t.Image == "" {
		return ""
	}
	out, err := imageref.Pin(t.Image, t.ImageDigest)
	if err != nil {
		return t.Image
	}
	return out
}
