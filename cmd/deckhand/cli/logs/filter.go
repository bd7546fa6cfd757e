package logs

import (
	"cmp"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/internal/execid"
	"github.com/deckhand-sh/deckhand/internal/logging"
)

// filter says which lines are shown. For a task it notes the steps and the requests of all
// lines that name the task, because other lines name only those.
type filter struct {
	task, step, node, role string
	least                  hclog.Level
	from                   time.Time

	steps, requests map[string]bool
}

// stepOf returns the step that a line names, itself or by a run of its command; "" for none.
func stepOf(l logging.Line) string {
	if id := l.Text(logging.StepID); id != "" {
		return id
	}
	if id := l.Text(logging.ExecID); strings.HasPrefix(id, "step_") {
		return execid.Step(id)
	}
	return ""
}

// learn notes what a line says of the task.
func (f *filter) learn(l logging.Line) {
	if f.task == "" || !strings.HasPrefix(l.Text(logging.TaskID), f.task) {
		return
	}
	if f.steps == nil {
		f.steps, f.requests = map[string]bool{}, map[string]bool{}
	}
	// A command that is not of a step counts as one.
	if id := cmp.Or(stepOf(l), l.Text(logging.ExecID)); id != "" {
		f.steps[id] = true
	}
	if id := l.Text(logging.CorrelationID); id != "" {
		f.requests[id] = true
	}
}

// ofTask reports whether a line is of the task. Several tasks may be of one request, such as
// a task and its subtasks: the request decides only for lines that name neither task nor step.
func (f *filter) ofTask(l logging.Line) bool {
	if id := l.Text(logging.TaskID); id != "" {
		return strings.HasPrefix(id, f.task)
	}
	if id := stepOf(l); id != "" {
		return f.steps[id]
	}
	return f.steps[l.Text(logging.ExecID)] || f.requests[l.Text(logging.CorrelationID)]
}

// match reports whether a line is shown.
func (f *filter) match(l logging.Line) bool {
	f.learn(l)
	switch {
	case l.Level < f.least, l.At.Before(f.from), f.role != "" && l.Role() != f.role:
		return false
	case f.node != "" && !strings.HasPrefix(l.Text(logging.NodeID), f.node):
		return false
	case f.step != "" && !strings.HasPrefix(stepOf(l), f.step):
		return false
	}
	return f.task == "" || f.ofTask(l)
}
