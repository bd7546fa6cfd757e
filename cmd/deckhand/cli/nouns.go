package cli

import (
	"fmt"
	"image/color"
	"maps"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// How the objects are shown. -o name prints what other commands take.

func (a *app) agentNoun() output.Noun[*deckhandv1.Agent] {
	return output.Noun[*deckhandv1.Agent]{
		Name: (*deckhandv1.Agent).GetName,
		Columns: []output.Column[*deckhandv1.Agent]{
			{Header: "name", Value: (*deckhandv1.Agent).GetName},
			{Header: "status", Value: func(x *deckhandv1.Agent) string { return enumName(x.GetStatus()) }},
			{Header: "version", Value: func(x *deckhandv1.Agent) string { return fmt.Sprint(x.GetVersion()) }},
			{Header: "model", Value: func(x *deckhandv1.Agent) string { return modelName(x.GetProvider(), x.GetModel()) }},
			{Header: "age", Value: func(x *deckhandv1.Agent) string { return a.age(x.GetCreatedAt()) }},
			{Header: "description", Value: (*deckhandv1.Agent).GetDescription, Max: 60},
			{Header: "id", Value: (*deckhandv1.Agent).GetId, Wide: true},
			{Header: "node", Value: (*deckhandv1.Agent).GetHomeNodeId, Wide: true},
			{Header: "updated", Value: func(x *deckhandv1.Agent) string { return moment(x.GetUpdatedAt()) }, Wide: true},
			{Header: "reason", Value: (*deckhandv1.Agent).GetStatusReason, Wide: true},
			{Header: "since", Value: func(x *deckhandv1.Agent) string { return moment(x.GetStatusSince()) }, Wide: true},
		},
	}
}

func (a *app) edgeNoun() output.Noun[*deckhandv1.AgentEdge] {
	count := func(of func(*deckhandv1.AgentEdge) int64) func(*deckhandv1.AgentEdge) string {
		return func(x *deckhandv1.AgentEdge) string { return fmt.Sprint(of(x)) }
	}
	return output.Noun[*deckhandv1.AgentEdge]{
		Name: func(x *deckhandv1.AgentEdge) string { return x.GetFrom() + "/" + x.GetTo() + "/" + x.GetKind() },
		Columns: []output.Column[*deckhandv1.AgentEdge]{
			{Header: "from", Value: (*deckhandv1.AgentEdge).GetFrom},
			{Header: "to", Value: (*deckhandv1.AgentEdge).GetTo},
			{Header: "kind", Value: (*deckhandv1.AgentEdge).GetKind},
			{Header: "permitted", Value: func(x *deckhandv1.AgentEdge) string { return fmt.Sprint(x.GetPermitted()) }},
			{Header: "tasks", Value: count((*deckhandv1.AgentEdge).GetTasks)},
			{Header: "live", Value: count((*deckhandv1.AgentEdge).GetLive)},
			{Header: "waiting", Value: count((*deckhandv1.AgentEdge).GetWaiting)},
			{Header: "cost", Value: func(x *deckhandv1.AgentEdge) string { return cost(&deckhandv1.Usage{CostMicros: x.GetCostMicros()}) }},
			{Header: "tokens", Value: count((*deckhandv1.AgentEdge).GetTokens), Wide: true},
			{Header: "last", Value: func(x *deckhandv1.AgentEdge) string { return moment(x.GetLastAt()) }, Wide: true},
		},
	}
}

func (a *app) taskNoun() output.Noun[*deckhandv1.Task] {
	state := func(x *deckhandv1.Task) lipgloss.Style { return stateStyle(x.GetState()) }
	return output.Noun[*deckhandv1.Task]{
		Name: (*deckhandv1.Task).GetId,
		Columns: []output.Column[*deckhandv1.Task]{
			{Header: "id", Value: (*deckhandv1.Task).GetId},
			{Header: "agent", Value: (*deckhandv1.Task).GetAgentName},
			{Header: "state", Value: func(x *deckhandv1.Task) string { return enumName(x.GetState()) }, Style: state},
			{Header: "progress", Value: func(x *deckhandv1.Task) string { return fmt.Sprintf("%.0f%%", 100*x.GetProgress()) }},
			{Header: "cost", Value: func(x *deckhandv1.Task) string { return cost(x.GetUsage()) }},
			{Header: "age", Value: func(x *deckhandv1.Task) string { return a.age(x.GetCreatedAt()) }},
			{Header: "title", Value: taskTitle, Max: 50},
			{Header: "queue", Value: place, Wide: true},
			{Header: "reason", Value: (*deckhandv1.Task).GetReason, Wide: true},
			{Header: "assignee", Value: (*deckhandv1.Task).GetAssignee, Wide: true},
			{Header: "model", Value: func(x *deckhandv1.Task) string { return modelName(x.GetProvider(), x.GetModel()) }, Wide: true},
			{Header: "priority", Value: func(x *deckhandv1.Task) string { return fmt.Sprint(x.GetPriority()) }, Wide: true},
			{Header: "iterations", Value: func(x *deckhandv1.Task) string { return fmt.Sprint(x.GetIteration()) }, Wide: true},
			{Header: "tokens", Value: func(x *deckhandv1.Task) string { return fmt.Sprint(tokens(x.GetUsage())) }, Wide: true},
			{Header: "attempt", Value: func(x *deckhandv1.Task) string { return fmt.Sprint(x.GetAttempt()) }, Wide: true},
			{Header: "node", Value: (*deckhandv1.Task).GetNodeId, Wide: true},
			{Header: "worker", Value: (*deckhandv1.Task).GetWorkerId, Wide: true},
			{Header: "created", Value: func(x *deckhandv1.Task) string { return moment(x.GetCreatedAt()) }, Wide: true},
			{Header: "started", Value: func(x *deckhandv1.Task) string { return moment(x.GetStartedAt()) }, Alone: true},
			{Header: "finished", Value: func(x *deckhandv1.Task) string { return moment(x.GetFinishedAt()) }, Alone: true},
			{Header: "agent version", Value: func(x *deckhandv1.Task) string { return fmt.Sprint(x.GetAgentVersion()) }, Alone: true},
			{Header: "by", Value: (*deckhandv1.Task).GetCreatedBy, Alone: true},
			{Header: "assigned by", Value: (*deckhandv1.Task).GetAssignedBy, Alone: true},
			{Header: "after", Value: func(x *deckhandv1.Task) string { return strings.Join(x.GetAfter(), " ") }, Alone: true},
			{Header: "part of", Value: (*deckhandv1.Task).GetParentId, Alone: true},
			{Header: "handed over by", Value: (*deckhandv1.Task).GetHandedFrom, Alone: true},
			{Header: "subtasks", Value: subtasks, Alone: true},
			{Header: "not before", Value: func(x *deckhandv1.Task) string { return moment(x.GetNotBefore()) }, Alone: true},
			{Header: "correlation id", Value: (*deckhandv1.Task).GetCorrelationId, Alone: true},
			{Header: "error", Value: func(x *deckhandv1.Task) string {
				return strings.TrimSpace(x.GetErrorCode() + " " + x.GetErrorMessage())
			}, Alone: true},
			{Header: "goal", Value: (*deckhandv1.Task).GetGoal, Block: true},
			{Header: "context", Value: (*deckhandv1.Task).GetContext, Block: true},
			{Header: "summary", Value: (*deckhandv1.Task).GetSummary, Block: true},
		},
	}
}

// subtasks sums up what is below a task.
func subtasks(x *deckhandv1.Task) string {
	s := x.GetSubtasks()
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%d (%d under way, %d succeeded), %.0f%%, %s", s.GetTasks(), s.GetLive(), s.GetSucceeded(), 100*s.GetProgress(), cost(s.GetUsage()))
}

func (a *app) stepNoun() output.Noun[*deckhandv1.Step] {
	return output.Noun[*deckhandv1.Step]{
		Name: (*deckhandv1.Step).GetId,
		Columns: []output.Column[*deckhandv1.Step]{
			{Header: "#", Value: func(x *deckhandv1.Step) string { return fmt.Sprint(x.GetNumber()) }},
			{Header: "id", Value: (*deckhandv1.Step).GetId},
			{Header: "tool", Value: (*deckhandv1.Step).GetTool},
			{Header: "state", Value: func(x *deckhandv1.Step) string { return enumName(x.GetState()) },
				Style: func(x *deckhandv1.Step) lipgloss.Style { return stepStyle(x.GetState()) }},
			{Header: "took", Value: func(x *deckhandv1.Step) string { return took(x.GetStartedAt(), x.GetFinishedAt()) }},
			{Header: "log", Value: func(x *deckhandv1.Step) string { return size(x.GetLogBytes()) }},
			{Header: "arguments", Value: func(x *deckhandv1.Step) string { return arguments(x.GetArguments()) }, Max: 60},
			{Header: "exit", Value: func(x *deckhandv1.Step) string { return field(x.GetOutcome(), "exit_code") }, Wide: true},
			{Header: "refused", Value: refusedHosts, Wide: true},
			{Header: "error", Value: (*deckhandv1.Step).GetErrorCode, Wide: true},
			{Header: "decision", Value: (*deckhandv1.Step).GetDecisionReason, Wide: true},
			{Header: "rule", Value: func(x *deckhandv1.Step) string { return x.GetDecision().GetRule() }, Wide: true},
			{Header: "policy", Value: func(x *deckhandv1.Step) string { return x.GetDecision().GetVersion() }, Wide: true},
			{Header: "attempt", Value: func(x *deckhandv1.Step) string { return fmt.Sprint(x.GetAttempt()) }, Wide: true},
			{Header: "observation", Value: (*deckhandv1.Step).GetObservation, Wide: true},
		},
	}
}

func (a *app) nodeNoun() output.Noun[*deckhandv1.Node] {
	return output.Noun[*deckhandv1.Node]{
		Name: (*deckhandv1.Node).GetName,
		Columns: []output.Column[*deckhandv1.Node]{
			{Header: "name", Value: (*deckhandv1.Node).GetName},
			{Header: "status", Value: (*deckhandv1.Node).GetStatus, Style: func(x *deckhandv1.Node) lipgloss.Style {
				return lipgloss.NewStyle().Foreground(map[string]color.Color{
					"connected": lipgloss.Green, "disconnected": lipgloss.Yellow, "revoked": lipgloss.Red,
				}[x.GetStatus()])
			}},
			{Header: "work", Value: nodeWork, Style: func(x *deckhandv1.Node) lipgloss.Style {
				if x.GetLock() == nil && x.GetDrain() == nil {
					return lipgloss.NewStyle()
				}
				return lipgloss.NewStyle().Foreground(lipgloss.Yellow)
			}},
			{Header: "seen", Value: func(x *deckhandv1.Node) string { return a.age(x.GetLastSeenAt()) }},
			{Header: "runtimes", Value: func(x *deckhandv1.Node) string { return strings.Join(x.GetRuntimes(), ",") }},
			{Header: "labels", Value: func(x *deckhandv1.Node) string { return labels(x.GetLabels()) }, Max: 50},
			{Header: "version", Value: (*deckhandv1.Node).GetVersion},
			{Header: "id", Value: (*deckhandv1.Node).GetId, Wide: true},
			{Header: "capability", Value: func(x *deckhandv1.Node) string { return fmt.Sprint(x.GetCapability()) }, Wide: true},
			{Header: "skills", Value: func(x *deckhandv1.Node) string { return skillNames(x.GetSkills()) }, Wide: true},
			{Header: "created", Value: func(x *deckhandv1.Node) string { return moment(x.GetCreatedAt()) }, Wide: true},
		},
	}
}

// skillNames returns the names of skills, with what is wrong with those that
// agents are not shown.
func skillNames(skills []*deckhandv1.NodeSkill) string {
	names := make([]string, len(skills))
	for i, s := range skills {
		if names[i] = s.GetName(); s.GetProblem() != "" {
			names[i] += " (not shown: " + s.GetProblem() + ")"
		}
	}
	return strings.Join(names, ", ")
}

// enumName returns an enum's value as people write it: "running" for
// TASK_STATE_RUNNING.
func enumName[E interface{ String() string }](value E) string {
	name := value.String()
	for _, prefix := range []string{
		"TASK_STATE_", "STEP_STATE_", "AGENT_STATUS_", "INBOX_KIND_", "INBOX_STATE_", "TOOL_CATEGORY_", "TRIGGER_KIND_", "TRIGGER_STATE_", "DELIVERY_STATE_",
	} {
		name = strings.TrimPrefix(name, prefix)
	}
	return strings.ToLower(name)
}

// modelName returns provider and model; a script is never shown as a model.
func modelName(provider, model string) string {
	switch {
	case provider == "script":
		return "scripted (no model)"
	case provider == "" || model == "":
		return provider + model
	}
	return provider + "/" + model
}

func taskTitle(t *deckhandv1.Task) string {
	if t.GetTitle() != "" {
		return t.GetTitle()
	}
	return t.GetGoal()
}

func cost(u *deckhandv1.Usage) string { return fmt.Sprintf("$%.4f", float64(u.GetCostMicros())/1e6) }

func tokens(u *deckhandv1.Usage) int64 {
	return u.GetInputTokens() + u.GetOutputTokens() + u.GetCacheReadTokens() + u.GetCacheWriteTokens()
}

func (a *app) age(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return output.Age(a.now(), t.AsTime())
}

func moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format(time.RFC3339)
}

func took(from, to *timestamppb.Timestamp) string {
	if from == nil || to == nil {
		return ""
	}
	return output.Duration(to.AsTime().Sub(from.AsTime()))
}

// size is how much something holds, blank for nothing.
func size(bytes int64) string {
	if bytes <= 0 {
		return ""
	}
	return bytesize.Format(bytes)
}

func labels(m map[string]string) string {
	parts := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, key+"="+m[key])
	}
	return strings.Join(parts, ",")
}

// arguments returns a tool call's arguments on one line: the only one's value,
// or name=value for each.
func arguments(s *structpb.Struct) string {
	fields := s.GetFields()
	parts := make([]string, 0, len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if len(fields) == 1 {
			return literal.Line(text(fields[key]))
		}
		parts = append(parts, literal.Line(key)+"="+literal.Line(text(fields[key])))
	}
	return strings.Join(parts, " ")
}

// field returns a field of a JSON object as text; "" when it is not there.
func field(s *structpb.Struct, name string) string { return text(s.GetFields()[name]) }

func text(v *structpb.Value) string {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		return kind.StringValue
	case *structpb.Value_NullValue, nil:
		return ""
	}
	raw, err := v.MarshalJSON()
	if err != nil {
		return ""
	}
	return string(raw)
}

func stateStyle(s deckhandv1.TaskState) lipgloss.Style {
	style := lipgloss.NewStyle()
	switch s {
	case deckhandv1.TaskState_TASK_STATE_SUCCEEDED:
		return style.Foreground(lipgloss.Green)
	case deckhandv1.TaskState_TASK_STATE_FAILED, deckhandv1.TaskState_TASK_STATE_TIMED_OUT, deckhandv1.TaskState_TASK_STATE_ESCALATED:
		return style.Foreground(lipgloss.Red)
	case deckhandv1.TaskState_TASK_STATE_STARTING, deckhandv1.TaskState_TASK_STATE_RUNNING:
		return style.Foreground(lipgloss.Cyan)
	case deckhandv1.TaskState_TASK_STATE_AWAITING_APPROVAL, deckhandv1.TaskState_TASK_STATE_NEEDS_INPUT,
		deckhandv1.TaskState_TASK_STATE_PAUSED, deckhandv1.TaskState_TASK_STATE_REVIEW_NEEDED:
		return style.Foreground(lipgloss.Yellow)
	}
	return style
}

func stepStyle(s deckhandv1.StepState) lipgloss.Style {
	style := lipgloss.NewStyle()
	switch s {
	case deckhandv1.StepState_STEP_STATE_SUCCEEDED:
		return style.Foreground(lipgloss.Green)
	case deckhandv1.StepState_STEP_STATE_FAILED, deckhandv1.StepState_STEP_STATE_DENIED, deckhandv1.StepState_STEP_STATE_UNKNOWN:
		return style.Foreground(lipgloss.Red)
	case deckhandv1.StepState_STEP_STATE_STARTED:
		return style.Foreground(lipgloss.Cyan)
	case deckhandv1.StepState_STEP_STATE_WAITING, deckhandv1.StepState_STEP_STATE_HELD:
		return style.Foreground(lipgloss.Yellow)
	}
	return style
}

// final reports whether a task's state never changes again.
func final(s deckhandv1.TaskState) bool {
	return s >= deckhandv1.TaskState_TASK_STATE_SUCCEEDED
}

// refusedHosts returns the hosts that a step's command wanted to reach and may
// not.
func refusedHosts(x *deckhandv1.Step) string {
	var hosts []string
	for _, value := range x.GetOutcome().GetFields()["egress"].GetStructValue().GetFields()["refused"].GetListValue().GetValues() {
		hosts = append(hosts, termsafe.Line(field(value.GetStructValue(), "host")))
	}
	return strings.Join(hosts, " ")
}
