package eventkind

import "slices"

// Lifecycle is a name that other systems know for something in the life of a task or an
// agent. It is no event of its own: an event of a task's history has it beside its kind.
type Lifecycle struct {
	Name string
	// From is the kind of the events that have the name: all of them; with a Field, those
	// whose payload has one of Words there, or any text if there are no Words.
	From   Kind
	Field  string
	Words  []string
	Groups []Group
	// What describes what has happened, in Markdown.
	What string
}

var lifecycles = []Lifecycle{
	{Name: "agent.completed", From: ExecutionCompleted, Groups: []Group{Lifecycles}, What: "a run ended well"},
	{Name: "agent.escalated", From: TaskEscalated, Groups: []Group{Escalations, Lifecycles}, What: "retries are spent: a person must decide"},
	{Name: "agent.failed", From: ExecutionFailed, Groups: []Group{Lifecycles}, What: "a run ended otherwise"},
	{Name: "agent.paused", From: StateChanged, Field: "to", Words: []string{"paused"}, Groups: []Group{Lifecycles}, What: "the task is paused"},
	{Name: "agent.progress", From: ProgressUpdate, Groups: []Group{Lifecycles}, What: "an iteration closed"},
	{Name: "agent.started", From: ExecutionStarted, Groups: []Group{Lifecycles}, What: "the first attempt began"},
	{Name: "agent.tool.called", From: ToolExecuting, Groups: []Group{Lifecycles}, What: "a call is handed to where it runs"},
	{Name: "audit.agent.action", From: ToolDenied, Groups: []Group{Lifecycles}, What: "an agent wanted to make a call, and may not"},
	{Name: "audit.agent.action", From: ToolSelected, Groups: []Group{Lifecycles}, What: "an agent wanted to make a call, and may"},
	{Name: "review.completed", From: StateChanged, Field: "from", Words: []string{"review_needed"}, Groups: []Group{Lifecycles}, What: "a run in review mode was judged"},
	{Name: "review.requested", From: ReviewRequested, Groups: []Group{Approvals, Lifecycles}, What: "a run in review mode is done"},
	{Name: "task.assigned", From: TaskSubmitted, Field: "agent", Groups: []Group{Lifecycles}, What: "the task was created for an agent"},
	{Name: "task.assigned", From: TaskSubmitted, Field: "assignee", Groups: []Group{Lifecycles}, What: "the task was created for a person"},
	{Name: "task.completed", From: StateChanged, Field: "to", Words: []string{"succeeded"}, Groups: []Group{Lifecycles}, What: "the task succeeded"},
	{Name: "task.failed", From: StateChanged, Field: "to", Words: []string{"failed", "timed_out"}, Groups: []Group{Failures, Lifecycles}, What: "the task failed or ran out of time"},
}

// LifecycleTable returns all lifecycle names, sorted; one that several kinds have is there
// once for each.
func LifecycleTable() []Lifecycle { return slices.Clone(lifecycles) }

// has reports whether an event of l's kind has the name. text returns the text that a field
// of its payload has, empty for none.
func (l Lifecycle) has(text func(field string) string) bool {
	if l.Field == "" {
		return true
	}
	word := text(l.Field)
	return len(l.Words) == 0 && word != "" || slices.Contains(l.Words, word)
}

// LifecycleOf returns the lifecycle names of an event, sorted. text returns the text that a
// field of its payload has, empty for none.
func LifecycleOf(kind string, text func(field string) string) []string {
	var out []string
	for _, l := range lifecycles {
		if string(l.From) == kind && l.has(text) {
			out = append(out, l.Name)
		}
	}
	return slices.Compact(out)
}

// Outside is an event that belongs to no task: it is in no history and is sent to
// destinations only.
type Outside struct {
	Kind   Kind
	Groups []Group
	// When describes when the event is sent, in Markdown.
	When string
}

// The kinds of events that belong to no task.
const (
	AuditHigh      Kind = "audit.high"
	DeliveryFailed Kind = "delivery.failed"
	TriggerTripped Kind = "trigger.tripped"
)

var outside = []Outside{
	{AuditHigh, []Group{Security}, "an entry of high or critical severity is in the [audit](audit.md)"},
	{DeliveryFailed, []Group{Failures}, "a delivery of a [trigger](triggers.md) started nothing; at most once an hour for each trigger"},
	{TriggerTripped, []Group{Failures}, "a [trigger](triggers.md) stopped itself"},
}

// OutsideTable returns the events that belong to no task, sorted.
func OutsideTable() []Outside { return slices.Clone(outside) }
