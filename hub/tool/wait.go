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
}

// WaitOf returns what a call of wait asks for.
func WaitOf(arguments map[string]any) Wait {
	return Wait{
		For: time.Duration(number(arguments, "seconds")) * time.Second,
		Job: text(arguments, "job"), Port: number(arguments, "port"), Path: text(arguments, "file"),
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
	}
	return ""
}

func waitTool() *Tool {
	return &Tool{
		Name: toolname.Wait,
		Description: "Wait for a time, or until a job ends, a port in your jail listens, or a file is there, whichever comes first. Use it in place of " +
			"sleep or of calling a tool again and again; you cost nothing while you wait. A job's output you can wait for with job_output. " +
			`Example: {"seconds": 600, "job": "job_3k9w"}.`,
		Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE, Place: deckhandv1.ToolPlace_TOOL_PLACE_NODE, Idempotent: true, ReadOnly: true,
		Waits: true, Timeout: time.Minute,
		schema: `{"type":"object","additionalProperties":false,"required":["seconds"],"maxProperties":2,"properties":{
			"seconds":{"type":"integer","minimum":1,"maximum":86400,"description":"Wait no longer than this"},
			"job":{"type":"string","minLength":1,"maxLength":64,"description":"Wait until this job ends"},
			"port":{"type":"integer","minimum":1,"maximum":65535,"description":"Wait until a process in your jail listens on this TCP port"},
			"file":{"type":"string","minLength":1,"maxLength":4096,"description":"Wait until this file or folder is there"}}}`,
		run: runWait,
	}
}

func runWait(ctx context.Context, c Call) (Result, error) {
	w, since, until := WaitOf(c.Arguments), c.WaitSince, c.WaitUntil
	if until.IsZero() {
		since, until = c.StartedAt, c.StartedAt.Add(w.For)
	}
	for {
		met, err := w.met(ctx, c)
		if err != nil {
			return failure(err)
		}
		left := time.Until(until)
		if met || left <= 0 || !c.WaitUntil.IsZero() {
			return w.result(met, time.Since(since)), nil
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

func (w Wait) met(ctx context.Context, c Call) (bool, error) {
	if w.Job != "" {
		j, err := c.Jobs.Job(ctx, w.Job)
		if err != nil || j.Ended {
			return j.Ended, err
		}
		res, err := c.Node.Exec().GetExec(ctx, &nodev1.GetExecRequest{ExecId: j.ExecID})
		return res.GetExec().GetState() == nodev1.ExecState_EXEC_STATE_ENDED, err
	}
	return w.There(ctx, c.Node.Jails(), c.Node.Files(), c.Jail.GetJailId())
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
