package logging

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Keys of log lines by which lines of several roles are brought together. No other key is
// used for what they hold: a test in internal/arch compares.
const (
	CorrelationID = "correlation_id"
	TraceID       = "trace_id"
	OrgID         = "org_id"
	TaskID        = "task_id"
	Attempt       = "attempt"
	StepID        = "step_id"
	ExecID        = "exec_id"
	JailID        = "jail_id"
	NodeID        = "node_id"
	WorkerID      = "worker_id"
	Error         = "error"
)

// Field describes a key.
type Field struct {
	Key string
	// What is what it holds.
	What string
	// Not are keys that somebody might use for it.
	Not []string
}

// Fields are the keys that the schema has, in the order of the documentation. A line may have
// others, which say what its message is about.
func Fields() []Field {
	return []Field{
		{timeKey, "when, with the offset of the machine's time zone", []string{"time", "ts", "timestamp"}},
		{levelKey, "`trace`, `debug`, `info`, `warn` or `error`", []string{"level", "severity"}},
		{componentKey, "the role and its part: `hub.api`, `worker`, `deckhand-node.link`; in `deckhand up` below `up`", []string{"component", "module", "logger"}},
		{messageKey, "what happened; the same text for the same event", []string{"msg"}},
		{Error, "why it failed", []string{"err"}},
		{CorrelationID, "the request, or for all that a task causes the request that submitted it", []string{"request_id", "request", "correlation"}},
		{TraceID, "the trace of OpenTelemetry", []string{"trace"}},
		{OrgID, "the organisation", []string{"org", "organisation", "organisation_id", "tenant"}},
		{TaskID, "the task", []string{"task", "run_id"}},
		{Attempt, "the run of the task on a worker, counted from 1", []string{"attempt_id", "attempt_no"}},
		{StepID, "the tool call", []string{"step"}},
		{ExecID, "the command on a node; that of a step begins with the step's id", []string{"exec", "command_id"}},
		{JailID, "the jail", []string{"jail"}},
		{NodeID, "the node", []string{"node"}},
		{WorkerID, "the worker", []string{"worker"}},
	}
}

// The keys that every line has.
const (
	timeKey      = "@timestamp"
	levelKey     = "@level"
	componentKey = "@module"
	messageKey   = "@message"
)

// Line is one line of a role's log in JSON.
type Line struct {
	At        time.Time
	Level     hclog.Level
	Component string
	Message   string
	// Values are those of the other keys.
	Values map[string]any
}

// Parse reads one line.
func Parse(text []byte) (Line, error) {
	values := map[string]any{}
	if err := json.Unmarshal(text, &values); err != nil {
		return Line{}, fmt.Errorf("not a line of a log in JSON: %w", err)
	}
	take := func(key string) string {
		value, _ := values[key].(string)
		delete(values, key)
		return value
	}
	l := Line{Level: hclog.LevelFromString(take(levelKey)), Component: take(componentKey), Message: take(messageKey), Values: values}
	var err error
	if l.At, err = time.Parse(time.RFC3339Nano, take(timeKey)); err != nil || l.Level == hclog.NoLevel {
		return Line{}, fmt.Errorf("a line without %s or %s", timeKey, levelKey)
	}
	return l, nil
}

// Text returns the value of a key as text; "" if the line has none.
func (l Line) Text(key string) string {
	switch value := l.Values[key].(type) {
	case nil:
		return ""
	case string:
		return value
	default:
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Sprint(value)
		}
		return string(text)
	}
}

// Role returns the role that wrote the line: hub, worker, node, or up for what belongs to
// none of them.
func (l Line) Role() string {
	parts := strings.Split(l.Component, ".")
	if parts[0] == "up" && len(parts) > 1 {
		parts = parts[1:]
	}
	switch parts[0] {
	case "hub", "worker", "node":
		return parts[0]
	case "deckhand-node":
		return "node"
	}
	return "up"
}
