package notification

import (
	"maps"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// This file says what can be told, and under which types.

// Types that tell of no event of a task.
const (
	typeTest           = "deckhand.test"
	TriggerTripped     = "trigger.tripped"
	DeliveryFailed     = "delivery.failed"
	AuditHigh          = "audit.high"
	approvalRequested  = "approval_requested"
	outcomeUnknown     = "outcome_unknown"
	inputRequired      = "input_required"
	stateChanged       = "state_changed"
	executionFailed    = "execution_failed"
	executionPaused    = "execution_paused"
	executionCompleted = "execution_completed"
	toolSelected       = "tool_selected"
	toolDenied         = "tool_denied"
	toolExecuting      = "tool_executing"
	toolCompleted      = "tool_completed"
	budgetWarning      = "budget_warning"
	planWarning        = "plan_warning"
	planReached        = "plan_reached"
	limitReached       = "limit_reached"
	agentSuspended     = "agent.suspended"
	taskEscalated      = "task.escalated"
	agentRetry         = "agent.retry"
	taskFailed         = "task.failed"
	taskCompleted      = "task.completed"
	agentPaused        = "agent.paused"
	reviewOpened       = "review_requested"
	reviewRequested    = "review.requested"
	reviewCompleted    = "review.completed"
)

// stored are the types that a task's history has.
var stored = []string{
	"agent.handed_over", agentRetry, "agent.spawned", "agent.subtask.created", "agent.subtask.ended", agentSuspended, approvalRequested,
	"artifacts_delivered", "artifacts_promised", budgetWarning, "checkpoint_created", "execution_cancelled", executionCompleted, executionFailed,
	executionPaused, "execution_resumed", "execution_started", "inbox_answered", "inbox_expired", inputRequired, "iteration_complete",
	"jail_not_frozen", limitReached, "limit_warning", "limits_lifted", "mcp_problems", "mcp_tool_changed", "message_delivered", "message_received",
	"model_failover", outcomeUnknown, "pause_requested", "phase_changed", planReached, "plan_updated", planWarning, "progress_update", reviewOpened,
	stateChanged, "task.assigned", taskEscalated, "task.memory_raised", "task.reordered", "task.submitted", "thinking", toolCompleted, toolDenied,
	toolExecuting, "tool_held", "tool_rejected",
	toolSelected, "workspace_restored", "workspace_undone",
}

// alias is a type under which an event is told besides its own.
type alias struct {
	name string
	// from is the event's own type.
	from string
	// when, if set, is what its payload must say.
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
	{name: "agent.started", from: "execution_started"},
	{name: "agent.progress", from: "progress_update"},
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

// elsewhere are told of other things than tasks.
var elsewhere = []string{TriggerTripped, DeliveryFailed, AuditHigh}

// groups are short for what people ask for.
var groups = map[string][]string{
	"approvals":   {approvalRequested, outcomeUnknown, reviewRequested},
	"questions":   {inputRequired},
	"failures":    {taskFailed, agentSuspended, TriggerTripped, DeliveryFailed},
	"budgets":     {budgetWarning, limitReached, planReached, planWarning},
	"escalations": {"agent.escalated"},
	"security":    {AuditHigh},
	"lifecycle": {
		"task.assigned", "agent.spawned", "agent.started", "agent.progress", "agent.subtask.created", "agent.tool.called", "agent.completed",
		"agent.failed", agentPaused, agentRetry, "agent.escalated", reviewRequested, reviewCompleted, taskCompleted, taskFailed, "audit.agent.action",
	},
	"stream": {
		"execution_started", executionCompleted, executionFailed, "execution_cancelled", "phase_changed", "plan_updated", "thinking", toolSelected,
		toolExecuting, toolCompleted, "checkpoint_created", inputRequired, "progress_update", "iteration_complete",
	},
}

// Groups returns their names.
func Groups() []string { return slices.Sorted(maps.Keys(groups)) }

// people are the groups that are told where nobody says what.
var people = []string{"approvals", "questions", "failures", "budgets", "escalations", "security"}

// all are all types that are told.
func all() []string {
	out := slices.Concat(stored, elsewhere)
	for _, t := range aliases {
		out = append(out, t.name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// choice is which types are told.
type choice map[string]bool

// choose reads what a spec says. An element that chooses nothing is an error.
func choose(patterns []string) (choice, error) {
	out := choice{}
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
			return nil, fault.New(fault.Invalid, "spec.events has %q, which is nothing that happens", p).
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

// of returns under which types an event is told.
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
