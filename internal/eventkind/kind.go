// Package eventkind lists all kinds of events in a task's history: what each
// one records, and whether a worker or the hub writes it.
//
// The hub accepts from a worker only the kinds that belong to workers. The
// others record what the hub did or a person decided, and are sent out signed.
// Notifications offer all kinds, and docs/events.md documents each one. Tests
// compare both with this list: to add a kind, add a constant, an entry in the
// table and a row on that page.
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
	// What describes when the event is written.
	What string
}

var table = []Entry{
	{AgentHandedOver, false, "a call handed the task's work on to another agent"},
	{AgentRetry, false, "a run failed in a way that another try may mend, and is tried again"},
	{AgentSpawned, false, "a worker claimed the task"},
	{AgentSubtaskCreated, false, "a call created a subtask"},
	{AgentSubtaskEnded, false, "a subtask ended"},
	{AgentSuspended, false, "the way the run ended suspended its agent"},
	{ApprovalRequested, false, "a call waits for an approval"},
	{ArtifactsDelivered, false, "promised files arrived in the workspace"},
	{ArtifactsPromised, false, "the task will get files from another workspace before it starts"},
	{BudgetWarning, false, "a call brought a budget to 80 % of its limit"},
	{CacheMissed, true, "after six turns the provider has read nothing from its prompt cache"},
	{CheckpointCreated, true, "a checkpoint is stored"},
	{ContextSummarized, true, "old turns were replaced by a summary"},
	{CredentialUsed, false, "commands of the task sent requests with a credential"},
	{EgressRefused, false, "a command wanted to reach a host that its egress rules do not allow"},
	{ExecutionCancelled, false, "the task was cancelled or killed"},
	{ExecutionCompleted, true, "the run ends well"},
	{ExecutionFailed, true, "the run ends with an error"},
	{ExecutionPaused, true, "the run pauses until a person has acted"},
	{ExecutionResumed, true, "a later attempt begins"},
	{ExecutionStarted, true, "the first attempt begins"},
	{GuardrailNudge, true, "the agent repeats itself and was told so"},
	{GuardrailStopped, true, "the agent repeated itself and was stopped"},
	{ImagePulling, false, "the jail's image is being pulled, and this much of it is there"},
	{ImageReady, false, "the jail's image is on the node, and its digest is pinned for the task"},
	{ImageSetup, false, "the jail's image is being prepared, and this command of its setup runs"},
	{InboxAnswered, false, "a person decided an inbox item"},
	{InboxExpired, false, "an inbox item ran out of time"},
	{InputRequired, false, "the agent asks a question"},
	{IterationComplete, true, "an iteration ends"},
	{JailNotFrozen, false, "the jail could not be frozen while its task waits"},
	{JobEnded, false, "a background command ended"},
	{JobStarted, false, "a command goes on in the background"},
	{LimitReached, true, "the run ends or pauses at a limit"},
	{LimitWarning, true, "80 % of a limit are used"},
	{LimitsLifted, false, "an administrator raised the limits of the run"},
	{MCPProblems, false, "MCP servers, or tools of them, are not available as an attempt begins"},
	{MCPToolChanged, false, "an MCP server offers a tool with another definition than was agreed to"},
	{MessageDelivered, false, "the model gets messages with its next turn"},
	{MessageReceived, false, "a person sent the agent a message"},
	{MessageWithdrawn, false, "a person took back a message before the model got it"},
	{ModelFailover, true, "another model continues, because the one before did not respond"},
	{ModelOutage, false, "no model of the task answers, and it waits until one does"},
	{OutcomeUnknown, false, "it is unknown whether a call took effect"},
	{PauseRequested, false, "a person asked for a pause before the next tool call, or took that back"},
	{PhaseChanged, true, "the loop enters a phase"},
	{PlanReached, false, "the task was the last run that the month's quota allows"},
	{PlanUpdated, true, "the agent set its plan"},
	{PlanWarning, false, "the task brought the month to 80 % of its quota"},
	{ProgressUpdate, true, "an iteration ends with this progress"},
	{ReviewRequested, false, "a run in review mode is done and waits for a verdict"},
	{StateChanged, false, "the task moved from one state to another"},
	{TaskAssigned, false, "a person assigned the task"},
	{TaskEscalated, false, "retries are spent, and a person must decide"},
	{TaskMemoryRaised, false, "a command was killed for memory, and the task continues with more"},
	{TaskReordered, false, "a person moved a queued task"},
	{TaskSubmitted, false, "the task was created"},
	{Thinking, true, "a turn of the model is finished"},
	{ToolCompleted, false, "the outcome of a step was stored"},
	{ToolDeferred, false, "a call became a step and is deferred until its run is accepted"},
	{ToolDenied, false, "a call became a step and may not run"},
	{ToolExecuting, false, "a step is handed to where it runs"},
	{ToolRejected, true, "a call never became a step: its tool does not exist or its arguments do not fit"},
	{ToolSelected, false, "a call became a step and may run"},
	{WorkStopped, false, "an inbox item was opened: the work needs a person to go on"},
	{WorkspaceRestored, false, "a task that continues from a checkpoint, or whose run failed, got the workspace of that checkpoint"},
	{WorkspaceUndone, false, "changes to files were undone"},
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
