package metrics

import (
	"strconv"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Delivery counts a firing of a trigger that was handled.
func (m *Metrics) Delivery(source, state string) { m.deliveries.WithLabelValues(source, state).Inc() }

// Notification counts a sending of a notification.
func (m *Metrics) Notification(kind, state string) {
	m.notifications.WithLabelValues(kind, state).Inc()
}

// Webhook counts an answer to a sender and how long it took.
func (m *Metrics) Webhook(status int, took time.Duration) {
	m.webhooks.WithLabelValues(strconv.Itoa(status)).Inc()
	m.webhookDuration.Observe(took.Seconds())
}

// Events counts the stored events of one task. It is called after the commit, and only
// adds.
func (m *Metrics) Events(drafts []event.Draft) {
	m.events.Add(float64(len(drafts)))
	for _, d := range drafts {
		switch d.Type {
		case eventkind.StateChanged:
			m.moves.WithLabelValues(m.state(d, "from"), m.state(d, "to")).Inc()
		case eventkind.AgentSpawned:
			m.leases.WithLabelValues("claimed").Inc()
		case eventkind.ToolDenied:
			m.steps.WithLabelValues(m.tool(d), "denied").Inc()
		case eventkind.ToolCompleted:
			m.steps.WithLabelValues(m.tool(d), outcome(d)).Inc()
			if ms, ok := d.Payload["duration_ms"].(int64); ok {
				m.stepDuration.WithLabelValues(m.tool(d)).Observe(float64(ms) / 1000)
			}
		case eventkind.ApprovalRequested:
			m.asked.WithLabelValues("approval").Inc()
		case eventkind.InputRequired:
			m.asked.WithLabelValues("question").Inc()
		case eventkind.OutcomeUnknown:
			m.asked.WithLabelValues("unknown").Inc()
		case eventkind.ReviewRequested:
			m.asked.WithLabelValues("review").Inc()
		case eventkind.TaskEscalated:
			m.asked.WithLabelValues("escalation").Inc()
		case eventkind.InboxAnswered:
			m.closed.WithLabelValues(text(d, "kind"), "answered").Inc()
			if ms, ok := d.Payload["waited_ms"].(int64); ok {
				m.response.WithLabelValues(text(d, "kind")).Observe(float64(ms) / 1000)
			}
		case eventkind.InboxExpired:
			m.closed.WithLabelValues(text(d, "kind"), "expired").Inc()
		case eventkind.PhaseChanged:
			if ms, ok := d.Payload["from_ms"].(float64); ok && ms >= 0 && m.phases[text(d, "from")] {
				m.phase.WithLabelValues(text(d, "from")).Observe(ms / 1000)
			}
		case eventkind.LimitReached:
			m.reached.WithLabelValues(known(m.limits, text(d, "kind"))).Inc()
		case eventkind.AgentSuspended:
			m.suspended.Inc()
		case eventkind.BudgetWarning:
			m.budgetWarnings.Inc()
		case eventkind.PlanWarning:
			m.quotas.WithLabelValues("warning").Inc()
		case eventkind.PlanReached:
			m.quotas.WithLabelValues("reached").Inc()
		case eventkind.ToolRejected:
			m.rejected.WithLabelValues(m.tool(d)).Inc()
		}
	}
}

func text(d event.Draft, key string) string {
	s, _ := d.Payload[key].(string)
	return s
}

// known returns a name as a label if it is on a list: a worker's events count as well,
// and a worker is not believed.
func known(list map[string]bool, name string) string {
	if list[name] {
		return name
	}
	return other
}

func (m *Metrics) tool(d event.Draft) string { return known(m.tools, text(d, "tool")) }

func (m *Metrics) state(d event.Draft, key string) string { return known(m.states, text(d, key)) }

// outcome returns how a step ended as a label.
func outcome(d event.Draft) string {
	switch state := text(d, "state"); state {
	case "succeeded", "failed", "unknown", "cancelled", "skipped":
		return state
	default:
		return other
	}
}

// Ended counts a task that ended.
func (m *Metrics) Ended(t db.Task) {
	m.tasks.WithLabelValues(t.State).Inc()
	if t.FinishedAt != nil {
		m.duration.WithLabelValues(t.State).Observe(t.FinishedAt.Sub(t.CreatedAt).Seconds())
	}
	if t.StartedAt != nil {
		m.iterations.WithLabelValues(t.State).Observe(float64(t.Iteration))
		m.cost.WithLabelValues(t.State).Observe(float64(t.CostMicros) / 1e6)
	}
	if t.ErrorCode == string(fault.Stuck) {
		m.stuck.Inc()
	}
}

// Call counts a call of the API. code is "ok" or a code of Connect's; a stream has no
// duration, since it lasts as long as its reader wants.
func (m *Metrics) Call(procedure, code string, took time.Duration, stream bool) {
	m.calls.WithLabelValues(procedure, code).Inc()
	if !stream {
		m.callDuration.WithLabelValues(procedure).Observe(took.Seconds())
	}
}

// Admitted counts what an admission decided.
func (m *Metrics) Admitted(admitted, waiting int) {
	m.admissions.WithLabelValues("admitted").Add(float64(admitted))
	m.admissions.WithLabelValues("waiting").Add(float64(waiting))
}

// Leases counts what became of leases: "renewed", "deferred", "refused" or "lost".
func (m *Metrics) Leases(what string, n int) { m.leases.WithLabelValues(what).Add(float64(n)) }

// Sent notes how late an event reached a watch.
func (m *Metrics) Sent(lag time.Duration) { m.lag.Observe(lag.Seconds()) }

// Link counts a link that came up or ended.
func (m *Metrics) Link(connected bool) {
	to := "down"
	if connected {
		to = "up"
	}
	m.linkChanges.WithLabelValues(to).Inc()
}

// Forwarded counts a call that another hub forwarded, or that was forwarded to one.
func (m *Metrics) Forwarded(direction string, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.forwarded.WithLabelValues(direction, outcome).Inc()
}
