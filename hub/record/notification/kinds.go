package notification

import (
	"maps"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Types of events that belong to no task.
const (
	typeTest           = "deckhand.test"
	TriggerTripped     = "trigger.tripped"
	DeliveryFailed     = "delivery.failed"
	AuditHigh          = "audit.high"
	approvalRequested  = string(eventkind.ApprovalRequested)
	outcomeUnknown     = string(eventkind.OutcomeUnknown)
	inputRequired      = string(eventkind.InputRequired)
	stateChanged       = string(eventkind.StateChanged)
	executionFailed    = string(eventkind.ExecutionFailed)
	executionPaused    = string(eventkind.ExecutionPaused)
	executionCompleted = string(eventkind.ExecutionCompleted)
	toolSelected       = string(eventkind.ToolSelected)
	toolDenied         = string(eventkind.ToolDenied)
	toolExecuting      = string(eventkind.ToolExecuting)
	toolCompleted      = string(eventkind.ToolCompleted)
	budgetWarning      = string(eventkind.BudgetWarning)
	planWarning        = string(eventkind.PlanWarning)
	planReached        = string(eventkind.PlanReached)
	limitReached       = string(eventkind.LimitReached)
	workStopped        = string(eventkind.WorkStopped)
	agentSuspended     = string(eventkind.AgentSuspended)
	taskEscalated      = string(eventkind.TaskEscalated)
	agentRetry         = string(eventkind.AgentRetry)
	taskFailed         = "task.failed"
	taskCompleted      = "task.completed"
	agentPaused        = "agent.paused"
	reviewOpened       = string(eventkind.ReviewRequested)
	reviewRequested    = "review.requested"
	reviewCompleted    = "review.completed"
)

// stored are the types that a task's history has.
var stored = eventkind.Names()

// alias is an additional type under which an event is sent.
type alias struct {
	name string
	// from is the event's own type.
	from string
	// when, if set, is the condition on its payload.
	when func(payload map[string]any) bool
}

func says(field string, words ...string) func(map[string]any) bool {
	return func(payload map[string]any) bool {
		word, _ := payload[field].(string)
		return slices.Contains(words, word)
	}
}

// aliases are those of other systems' lifecycle events.
var aliases = []alias{
	{name: "agent.started", from: string(eventkind.ExecutionStarted)},
	{name: "agent.progress", from: string(eventkind.ProgressUpdate)},
	{name: "agent.tool.called", from: toolExecuting},
	{name: "agent.completed", from: executionCompleted},
	{name: "agent.failed", from: executionFailed},
	{name: agentPaused, from: stateChanged, when: says("to", "paused")},
	{name: "agent.escalated", from: taskEscalated},
	{name: reviewRequested, from: reviewOpened},
	{name: reviewCompleted, from: stateChanged, when: says("from", "review_needed")},
	{name: taskCompleted, from: stateChanged, when: says("to", "succeeded")},
	{name: taskFailed, from: stateChanged, when: says("to", "failed", "timed_out")},
	{name: "audit.agent.action", from: toolSelected},
	{name: "audit.agent.action", from: toolDenied},
}

// elsewhere are the types of events that belong to no task.
var elsewhere = []string{TriggerTripped, DeliveryFailed, AuditHigh}

// groups are short for what people ask for.
var groups = map[string][]string{
	"approvals":   {approvalRequested, outcomeUnknown, reviewRequested},
	"questions":   {inputRequired},
	"failures":    {taskFailed, agentSuspended, TriggerTripped, DeliveryFailed},
	"budgets":     {budgetWarning, limitReached, planReached, planWarning},
	"escalations": {"agent.escalated", workStopped},
	"security":    {AuditHigh},
	"lifecycle": {
		string(eventkind.TaskAssigned), string(eventkind.AgentSpawned), "agent.started", "agent.progress", string(eventkind.AgentSubtaskCreated), "agent.tool.called", "agent.completed",
		"agent.failed", agentPaused, agentRetry, "agent.escalated", reviewRequested, reviewCompleted, taskCompleted, taskFailed, "audit.agent.action",
	},
	"stream": {
		string(eventkind.ExecutionStarted), executionCompleted, executionFailed, string(eventkind.ExecutionCancelled), string(eventkind.PhaseChanged), string(eventkind.PlanUpdated), string(eventkind.Thinking), toolSelected,
		toolExecuting, toolCompleted, string(eventkind.CheckpointCreated), inputRequired, string(eventkind.ProgressUpdate), string(eventkind.IterationComplete),
	},
}

// Groups returns their names.
func Groups() []string { return slices.Sorted(maps.Keys(groups)) }

// noEvents is what a destination chooses that is for agents only.
const noEvents = "none"

// people are the default groups for people.
var people = []string{"approvals", "questions", "failures", "budgets", "escalations", "security"}

// all returns all types that are sent.
func all() []string {
	out := slices.Concat(stored, elsewhere)
	for _, t := range aliases {
		out = append(out, t.name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// choice is the set of types that a destination gets.
type choice map[string]bool

// choose parses a spec's events. An element that matches no type is an error.
func choose(patterns []string) (choice, error) {
	out := choice{}
	if slices.Equal(patterns, []string{noEvents}) {
		return out, nil
	}
	for _, p := range patterns {
		chosen := groups[p]
		if chosen == nil {
			prefix, open := strings.CutSuffix(p, "*")
			for _, t := range all() {
				if t == p || open && strings.HasPrefix(t, prefix) {
					chosen = append(chosen, t)
				}
			}
		}
		if len(chosen) == 0 {
			return nil, fault.New(fault.Invalid, "unknown event type %q in spec.events", p).
				WithFix("use groups (%s), types such as agent.failed, or beginnings such as agent.*", strings.Join(Groups(), ", "))
		}
		for _, t := range chosen {
			out[t] = true
		}
	}
	return out, nil
}

// sources returns the types of the events that have to be read.
func (c choice) sources() []string {
	var out []string
	for _, t := range stored {
		if c[t] {
			out = append(out, t)
		}
	}
	for _, t := range aliases {
		if c[t.name] {
			out = append(out, t.from)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// of returns the types under which an event is sent.
func (c choice) of(own string, payload map[string]any) []string {
	var out []string
	if c[own] {
		out = append(out, own)
	}
	for _, t := range aliases {
		if t.from == own && c[t.name] && (t.when == nil || t.when(payload)) {
			out = append(out, t.name)
		}
	}
	return out
}
