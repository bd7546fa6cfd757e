// Package eventkind lists all kinds of events in a task's history: what each
// one records, and whether a worker or the hub writes it.
//
// The hub accepts from a worker only the kinds that belong to workers. The
// others record what the hub did or a person decided, and are sent out signed.
// Watches and destinations offer all kinds, and the lifecycle names that some of
// them have, too. To add a kind, add a constant and an entry in the table, and run
// scripts/generate, which lists it in docs/events.md and docs/notifications.md.
package eventkind

import "slices"

// Kind is the type of an event.
type Kind string

// The kinds. Their payloads are in docs/events.md.
const (
	AgentHandedOver     Kind = "agent.handed_over"
	AgentRetry          Kind = "agent.retry"
	AgentSpawned        Kind = "agent.spawned"
	AgentSubtaskCreated Kind = "agent.subtask.created"
	AgentSubtaskEnded   Kind = "agent.subtask.ended"
	AgentSuspended      Kind = "agent.suspended"
	ApprovalRequested   Kind = "approval_requested"
	ArtifactsDelivered  Kind = "artifacts_delivered"
	ArtifactsPromised   Kind = "artifacts_promised"
	BrowserActed        Kind = "browser_acted"
	BrowserGiven        Kind = "browser_given"
	BrowserTaken        Kind = "browser_taken"
	BudgetWarning       Kind = "budget_warning"
	CacheMissed         Kind = "cache_missed"
	CheckpointCreated   Kind = "checkpoint_created"
	ContextSummarized   Kind = "context_summarized"
	CredentialUsed      Kind = "credential_used" //nolint:gosec // the name of an event
	EgressRefused       Kind = "egress_refused"
	ExecutionCancelled  Kind = "execution_cancelled"
	ExecutionCompleted  Kind = "execution_completed"
	ExecutionFailed     Kind = "execution_failed"
	ExecutionPaused     Kind = "execution_paused"
	ExecutionResumed    Kind = "execution_resumed"
	ExecutionStarted    Kind = "execution_started"
	GuardrailNudge      Kind = "guardrail_nudge"
	GuardrailStopped    Kind = "guardrail_stopped"
	ImagePulling        Kind = "image_pulling"
	ImageReady          Kind = "image_ready"
	ImageSetup          Kind = "image_setup"
	InboxAnswered       Kind = "inbox_answered"
	InboxExpired        Kind = "inbox_expired"
	InputRequired       Kind = "input_required"
	IterationComplete   Kind = "iteration_complete"
	JailNotFrozen       Kind = "jail_not_frozen"
	JobEnded            Kind = "job_ended"
	JobStarted          Kind = "job_started"
	LimitReached        Kind = "limit_reached"
	LimitWarning        Kind = "limit_warning"
	LimitsLifted        Kind = "limits_lifted"
	MCPProblems         Kind = "mcp_problems"
	MCPToolChanged      Kind = "mcp_tool_changed"
	MessageDelivered    Kind = "message_delivered"
	MessageReceived     Kind = "message_received"
	MessageWithdrawn    Kind = "message_withdrawn"
	ModelFailover       Kind = "model_failover"
	ModelOutage         Kind = "model_outage"
	OutcomeUnknown      Kind = "outcome_unknown"
	PauseRequested      Kind = "pause_requested"
	PhaseChanged        Kind = "phase_changed"
	PlanReached         Kind = "plan_reached"
	PlanUpdated         Kind = "plan_updated"
	PlanWarning         Kind = "plan_warning"
	ProgressUpdate      Kind = "progress_update"
	ReviewRequested     Kind = "review_requested"
	StateChanged        Kind = "state_changed"
	TaskAssigned        Kind = "task.assigned"
	TaskEscalated       Kind = "task.escalated"
	TaskMemoryRaised    Kind = "task.memory_raised"
	TaskReordered       Kind = "task.reordered"
	TaskRestored        Kind = "task.restored"
	TaskSubmitted       Kind = "task.submitted"
	Thinking            Kind = "thinking"
	ToolCompleted       Kind = "tool_completed"
	ToolDeferred        Kind = "tool_deferred"
	ToolDenied          Kind = "tool_denied"
	ToolExecuting       Kind = "tool_executing"
	ToolRejected        Kind = "tool_rejected"
	ToolSelected        Kind = "tool_selected"
	WorkStopped         Kind = "work_stopped"
	WorkspaceRestored   Kind = "workspace_restored"
	WorkspaceUndone     Kind = "workspace_undone"
)

// Entry describes a kind.
type Entry struct {
	Kind Kind
	// Worker says that workers write the event; all others are the hub's.
	Worker bool
	// Groups are those in which people and other systems choose the event.
	Groups []Group
	// When describes when the event is written, in Markdown.
	When string
	// Payload lists the fields of the event's payload, in Markdown.
	Payload string
}

var byKind = func() map[Kind]Entry {
	out := make(map[Kind]Entry, len(table))
	for _, e := range table {
		out[e.Kind] = e
	}
	return out
}()

// All returns the table, sorted by kind.
func All() []Entry { return slices.Clone(table) }

// Names returns the names of all kinds, sorted.
func Names() []string {
	out := make([]string, len(table))
	for i, e := range table {
		out[i] = string(e.Kind)
	}
	return out
}

// FromWorker reports whether workers write events of a kind.
func FromWorker(kind string) bool { return byKind[Kind(kind)].Worker }

// ActorClass returns what kind of actor a component is: a human (a user), an agent (for
// which a worker acts), or the system (hub and node).
func ActorClass(component string) string {
	switch component {
	case "user":
		return "human"
	case "worker", "agent":
		return "agent"
	default:
		return "system"
	}
}
