package event

// fromWorkers are the events that a worker tells of itself. All others say what
// the hub has done or a person has decided, go out signed, and are the hub's to
// write.
var fromWorkers = map[string]bool{
	"execution_started": true, "execution_resumed": true, "thinking": true, "tool_rejected": true, "model_failover": true, "plan_updated": true, "progress_update": true, "iteration_complete": true,
	"checkpoint_created": true, "context_summarized": true, "phase_changed": true, "guardrail_nudge": true, "guardrail_stopped": true,
	"limit_reached": true, "limit_warning": true, "execution_completed": true, "execution_paused": true, "execution_failed": true,
}

// FromWorker reports whether a worker may tell of an event of a type.
func FromWorker(kind string) bool { return fromWorkers[kind] }
