package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// LongWait is how long a call may wait while it has a worker. A longer one gives up
	// the worker's slot.
	LongWait = 30 * time.Second
	// lookEvery is how often a call with a worker looks whether what it waits for is there.
	lookEvery = 500 * time.Millisecond
)

// Wait is what a call of wait asks for: to wait for a time, or until one thing happens.
type Wait struct {
	For  time.Duration
	Job  string
	Port int64
	Path string
	// Task is the id of a subtask.
	Task string
}

// WaitOf returns what a call of wait asks for.
func WaitOf(arguments map[string]any) Wait {
	return Wait{
		For: time.Duration(number(arguments, "seconds")) * time.Second,
		Job: text(arguments, "job"), Port: number(arguments, "port"), Path: text(arguments, "file"),
		Task: text(arguments, "task"),
	}
}

// What names what a wait is for, such as "until job_1 ends"; empty for a time alone.
func (w Wait) What() string {
	switch {
	case w.Job != "":
		return "until " + w.Job + " ends"
	case w.Port != 0:
		return fmt.Sprintf("until port %d listens", w.Port)
	case w.Path != "":
		return "until " + w.Path + " is there"
	case w.Task != "":
		return "until " + w.Task + " ends"
	}
	return ""
}

func waitTool() *Tool {
	return &Tool{
		Name: toolname.Wait,
		Description: "Wait for a time, or until a job or subtask ends, a port in your jail listens, or a file exists, whichever comes first. " +
			"Use it instead of sleep and instead of polling: you use no tokens while you wait. Returns a subtask's result when it has ended. To wait for a job's output, use job_output. " +
			`Example: {"seconds": 600, "job": "job_3k9w"}.`,
		Kind: KindWork, Returns: Fetched, Expected: 30 * time.Second,
		Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE, Place: deckhandv1.ToolPlace_TOOL_PLACE_NODE, Idempotent: true, ReadOnly: true,
		Waits: true, Timeout: time.Minute,
		schema: `{"type":"object","additionalProperties":false,"required":["seconds"],"maxProperties":2,"properties":{
			"seconds":{"type":"integer","minimum":1,"maximum":86400,"description":"Wait no longer than this"},
			"job":{"type":"string","minLength":1,"maxLength":64,"description":"Wait until this job ends"},
			"port":{"type":"integer","minimum":1,"maximum":65535,"description":"Wait until a process in your jail listens on this TCP port"},
			"file":{"type":"string","minLength":1,"maxLength":4096,"description":"Wait until this file or folder exists"},
			"task":{"type":"string","minLength":1,"maxLength":64,"description":"Wait until this subtask ends, which create_subtask or delegate started in the background"}}}`,
		run: runWait,
	}
}

func runWait(ctx context.Context, c Call) (Result, error) {
	w, since, until := WaitOf(c.Arguments), c.WaitSince, c.WaitUntil
	if until.IsZero() {
		since, until = c.StartedAt, c.StartedAt.Add(w.For)
	}
	for {
		met, more, err := w.met(ctx, c)
		if err != nil {
			return failure(err)
		}
		left := time.Until(until)
		if met || left <= 0 || !c.WaitUntil.IsZero() {
			r := w.result(met, time.Since(since))
			r.Observation += more
			return r, nil
		}
		if err := backoff.Wait(ctx, min(left, lookEvery)); err != nil {
			return Result{}, err
		}
	}
}

func (w Wait) result(met bool, waited time.Duration) Result {
	said := "waited " + inWords(waited)
	switch {
	case w.What() == "":
	case met:
		said += "; " + strings.Replace(strings.TrimPrefix(w.What(), "until "), " ends", " has ended", 1)
	default:
		said += ", but not " + w.What()
	}
	return Result{Observation: said, Outcome: map[string]any{"met": met, "waited_seconds": waited.Seconds()}}
}

// met reports whether what a call waits for has come, with what else its result says.
func (w Wait) met(ctx context.Context, c Call) (met bool, more string, err error) {
	switch {
	case w.Task != "":
		child, ended, err := c.Child(ctx, w.Task)
		if err != nil || !ended {
			return false, "", err
		}
		return true, "\n" + child.ending(), nil
	case w.Job != "":
		j, err := c.Jobs.Job(ctx, w.Job)
		if err != nil || j.Ended {
			return j.Ended, "", err
		}
		res, err := c.Node.Exec().GetExec(ctx, &nodev1.GetExecRequest{ExecId: j.ExecID})
		return res.GetExec().GetState() == nodev1.ExecState_EXEC_STATE_ENDED, "", err
	}
	met, err = w.There(ctx, c.Node.Jails(), c.Node.Files(), c.Jail.GetJailId())
	return met, "", err
}

// There reports whether the port or the file that a wait is for is there.
func (w Wait) There(ctx context.Context, jails nodev1.JailServiceClient, files nodev1.FileServiceClient, jailID string) (bool, error) {
	switch {
	case w.Port != 0:
		res, err := jails.ListPorts(ctx, &nodev1.ListPortsRequest{JailId: jailID})
		return slices.ContainsFunc(res.GetTcp(), func(port uint32) bool { return int64(port) == w.Port }), err
	case w.Path != "":
		_, err := files.ListFiles(ctx, &nodev1.ListFilesRequest{JailId: jailID, Path: w.Path, Limit: 1})
		if err = fault.FromGRPC(err); fault.Is(err, fault.NotFound) {
			return false, nil
		}
		return err == nil, err
	}
	return false, nil
}
