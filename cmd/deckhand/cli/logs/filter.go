package logs

import (
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/internal/logging"
)

// filter says which lines are shown. That of a task learns: a line that names the task and a
// step or a correlation id says whose they are.
type filter struct {
	task, step, node, role string
	least                  hclog.Level
	from                   time.Time

	steps, requests map[string]bool
}

// learn notes what a line says of the task.
func (f *filter) learn(l logging.Line) {
	if f.task == "" || !strings.HasPrefix(l.Text(logging.TaskID), f.task) {
		return
	}
	if f.steps == nil {
		f.steps, f.requests = map[string]bool{}, map[string]bool{}
	}
	for _, key := range []string{logging.StepID, logging.ExecID} {
		if id := l.Text(key); id != "" {
			f.steps[id] = true
		}
	}
	if id := l.Text(logging.CorrelationID); id != "" {
		f.requests[id] = true
	}
}

// ofTask reports whether a line is of the task.
func (f *filter) ofTask(l logging.Line) bool {
	if id := l.Text(logging.TaskID); id != "" {
		return strings.HasPrefix(id, f.task)
	}
	return f.steps[l.Text(logging.StepID)] || f.steps[l.Text(logging.ExecID)] || f.requests[l.Text(logging.CorrelationID)]
}

// match reports whether a line is shown.
func (f *filter) match(l logging.Line) bool {
	f.learn(l)
	switch {
	case l.Level < f.least, l.At.Before(f.from), f.role != "" && l.Role() != f.role:
		return false
	case f.node != "" && !strings.HasPrefix(l.Text(logging.NodeID), f.node):
		return false
	case f.step != "" && !strings.HasPrefix(l.Text(logging.StepID), f.step) && !strings.HasPrefix(l.Text(logging.ExecID), f.step):
		return false
	}
	return f.task == "" || f.ofTask(l)
}
