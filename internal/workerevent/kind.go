// Package workerevent names the events that a worker tells of itself. All others
// say what the hub has done or a person has decided, go out signed, and are the
// hub's to write: it refuses them from a worker.
package workerevent

// Kind is the type of an event.
type Kind string

// The events that a worker tells of. Their payloads are in docs/events.md.
const (
	ExecutionStarted   Kind = "execution_started"
	ExecutionResumed   Kind = "execution_resumed"
	ExecutionCompleted Kind = "execution_completed"
	ExecutionPaused    Kind = "execution_paused"
	ExecutionFailed    Kind = "execution_failed"
	PhaseChanged       Kind = "phase_changed"
	Thinking           Kind = "thinking"
	ToolRejected       Kind = "tool_rejected"
	ModelFailover      Kind = "model_failover"
	PlanUpdated        Kind = "plan_updated"
	ProgressUpdate     Kind = "progress_update"
	IterationComplete  Kind = "iteration_complete"
	CheckpointCreated  Kind = "checkpoint_created"
	ContextSummarized  Kind = "context_summarized"
	GuardrailNudge     Kind = "guardrail_nudge"
	GuardrailStopped   Kind = "guardrail_stopped"
	LimitReached       Kind = "limit_reached"
	LimitWarning       Kind = "limit_warning"
)

var known = map[Kind]bool{
	ExecutionStarted: true, ExecutionResumed: true, ExecutionCompleted: true, ExecutionPaused: true, ExecutionFailed: true, PhaseChanged: true, Thinking: true, ToolRejected: true, ModelFailover: true, PlanUpdated: true, ProgressUpdate: true, IterationComplete: true, CheckpointCreated: true, ContextSummarized: true, GuardrailNudge: true, GuardrailStopped: true, LimitReached: true, LimitWarning: true,
}

// Is reports whether an event of a type is a worker's to tell of.
func Is(kind string) bool { return known[Kind(kind)] }
