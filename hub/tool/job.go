package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// maxJobs is how many background commands of a task may run at once.
	maxJobs = 16
	// jobWait is how long one call may wait for output, and inputWait how long it waits for
	// a job to take input.
	jobWait   = 30 * time.Second
	inputWait = 10 * time.Second
	// untilWindow is how much of the newest output an expression is searched in.
	untilWindow = 64 << 10
)

// Job is a background command of a task.
type Job struct {
	ID, ExecID string
	// Command is its command line, shortened, with secrets masked.
	Command   string
	StartedAt time.Time
	// Ended reports that its end is stored.
	Ended bool
	// Terminal reports that it runs on a terminal.
	Terminal bool
	// Earlier reports that an earlier task of the agent started it.
	Earlier bool
	// ReadBytes is up to where its output was read, and InputBytes how much input it was
	// given.
	ReadBytes, InputBytes int64
}

// Jobs finds the background commands of a task, and those that earlier tasks have left
// running in its jail.
type Jobs interface {
	// Job returns one by its id, or an error of kind Invalid if the task has none of it.
	Job(ctx context.Context, id string) (Job, error)
	// Command returns a command of the task by the id of its job or of its step.
	Command(ctx context.Context, id string) (Job, error)
	// List returns those that run, then those that have ended, the newest first.
	List(ctx context.Context) ([]Job, error)
}

// StartedJob is a job that a call started.
type StartedJob struct {
	ID, Command string
	// ReadBytes is up to where the call returned its output.
	ReadBytes int64
	// Terminal reports that it runs on a terminal.
	Terminal bool
}

// JobProgress is how far a call has read and written a job.
type JobProgress struct {
	JobID                 string
	ReadBytes, InputBytes int64
}

func jobTools() []*Tool {
	const (
		safe     = deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE
		moderate = deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE
		node     = deckhandv1.ToolPlace_TOOL_PLACE_NODE
		jobID    = `"job":{"type":"string","minLength":1,"maxLength":64,"description":"The job's id, as shell_exec returned it"}`
	)
	return []*Tool{
		{
			Name: toolname.JobOutput,
			Description: "Read the output of a job: a command that shell_exec runs in the background. Returns whether it still runs, and what it wrote " +
				"since you read it last. To see it come up or finish, wait a few seconds, or until a line matches; do not call it in a tight loop. " +
				"For a command whose output was shortened, give the id of its step, and an offset to read on from there. " +
				`Example: {"job": "job_3k9w", "wait_seconds": 20, "until": "listening on"}.`,
			Kind: KindWork, Returns: Fetched, Expected: time.Second, Retryable: true,
			Category: safe, Place: node, Idempotent: true, ReadOnly: true, Timeout: time.Minute,
			schema: `{"type":"object","additionalProperties":false,"required":["job"],"properties":{
				"job":{"type":"string","minLength":1,"maxLength":64,"description":"The job's id, as shell_exec returned it, or the id of the step of any command"},
				"offset":{"type":"integer","minimum":0,"description":"Read from this byte of the output, so much as one result shows; by default from where you read last, long output shortened in the middle"},
				"wait_seconds":{"type":"integer","minimum":0,"maximum":30,"description":"Wait up to this long for the job to end, or for the expression; 0 by default"},
				"until":{"type":"string","minLength":1,"maxLength":1000,"description":"Wait only until the output since the offset matches this regular expression (RE2)"}}}`,
			run: runJobOutput,
		},
		{
			Name: toolname.JobInput,
			Description: "Write a line of text to the standard input of a job that you started with background. A line break is added. " +
				"For programs that need a terminal, use terminal_open in place of it. " +
				`Example: {"job": "job_3k9w", "text": "yes"}.`,
			Kind: KindWork, Returns: Fetched, Expected: time.Second,
			Category: moderate, Place: node, Idempotent: true, Irreversible: "what the program does with its input", Timeout: time.Minute,
			schema: `{"type":"object","additionalProperties":false,"required":["job"],"minProperties":2,"properties":{` + jobID + `,
				"text":{"type":"string","maxLength":65536,"description":"The text to write"},
				"end":{"type":"boolean","description":"Close the input after it, so that the program reads its end"}}}`,
			run: runJobInput,
		},
		{
			Name: toolname.JobKill,
			Description: "Kill a job and all its processes. Use it when you no longer need a server, or when a command hangs; " +
				`jobs end with the task by themselves. Example: {"job": "job_3k9w"}.`,
			Kind: KindWork, Expected: time.Second, Retryable: true,
			Category: moderate, Place: node, Idempotent: true, Irreversible: "the processes that it ends", Timeout: time.Minute,
			schema: `{"type":"object","additionalProperties":false,"required":["job"],"properties":{` + jobID + `}}`,
			run:    runJobKill,
		},
		{
			Name: toolname.JobList,
			Description: "List the jobs of this task, and those that your earlier tasks left running, with their command lines: those that run first. Use it when you do not know an id any more. " +
				`Example: {}.`,
			Kind: KindWork, Expected: time.Second, Retryable: true,
			Category: safe, Place: node, Idempotent: true, ReadOnly: true, Timeout: time.Minute,
			schema: `{"type":"object","additionalProperties":false,"properties":{}}`,
			run:    runJobList,
		},
	}
}

// tooManyJobs returns a refusal if a task may start no more jobs.
func tooManyJobs(ctx context.Context, c Call) (*fault.Error, error) {
	jobs, err := c.Jobs.List(ctx)
	if err != nil {
		return nil, err
	}
	running := 0
	for _, j := range jobs {
		if j.ExecID == c.ExecID {
			return nil, nil // the call itself, which is repeated
		}
		if !j.Ended {
			running++
		}
	}
	if running < maxJobs {
		return nil, nil
	}
	return fault.New(fault.Exhausted, "%d jobs run already", running).WithCode(fault.RateLimited).WithFix("end one with %s", toolname.JobKill), nil
}

// jobResult is the result of a command that became a job.
func jobResult(ctx context.Context, c Call, exec *nodev1.Exec) (Result, error) {
	id := nodelink.JobID(c.ExecID)
	output, err := excerpt(ctx, c, Job{ID: id, ExecID: c.ExecID}, 0, exec.GetLogBytes())
	if err != nil {
		return Result{}, err
	}
	said := fmt.Sprintf("%s runs in the background, for at most %s. Read its output with %s, end it with %s.", id, inWords(c.JobTime), toolname.JobOutput, toolname.JobKill)
	if !flag(c.Arguments, "background") {
		said = "not done in time: " + said
	}
	if exec.GetLogBytes() > 0 {
		said += "\nIts output so far:\n" + output
	}
	return Result{
		Observation: said, LogBytes: exec.GetLogBytes(), Workspace: exec.GetWorkspace(),
		Outcome: map[string]any{"job_id": id, "log_bytes": exec.GetLogBytes()},
		Started: &StartedJob{ID: id, Command: text(c.Arguments, "command"), ReadBytes: exec.GetLogBytes()},
	}, nil
}

// inWords returns a duration without units that are 0, such as "1h" or "1h30m".
func inWords(d time.Duration) string {
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// job returns the job or command that a call names, with its state on the node.
func job(ctx context.Context, c Call) (Job, *nodev1.Exec, error) {
	j, err := c.Jobs.Command(ctx, text(c.Arguments, "job"))
	if err != nil {
		return j, nil, err
	}
	res, err := c.Node.Exec().GetExec(ctx, &nodev1.GetExecRequest{ExecId: j.ExecID})
	return j, res.GetExec(), err
}

// jobStatus describes the state of a job.
func jobStatus(j Job, exec *nodev1.Exec) string {
	name := j.ID
	if j.Earlier {
		name += " of an earlier task"
	}
	if exec.GetState() != nodev1.ExecState_EXEC_STATE_ENDED {
		return fmt.Sprintf("%s has run for %s", name, inWords(max(0, time.Since(j.StartedAt))))
	}
	status, _ := describe(exec)
	return fmt.Sprintf("%s has ended: %s", name, strings.TrimPrefix(status, "error "))
}

func runJobOutput(ctx context.Context, c Call) (Result, error) {
	j, exec, err := job(ctx, c)
	if err != nil {
		return failure(err)
	}
	from := j.ReadBytes
	_, page := c.Arguments["offset"]
	if page {
		from = number(c.Arguments, "offset")
	}
	wait := min(time.Duration(number(c.Arguments, "wait_seconds"))*time.Second, jobWait)
	var matched bool
	if wait = time.Until(c.StartedAt.Add(wait)); wait > 0 && exec.GetState() != nodev1.ExecState_EXEC_STATE_ENDED {
		if expression := text(c.Arguments, "until"); expression != "" {
			re, err := regexp.Compile(expression)
			if err != nil {
				return failure(fault.New(fault.Invalid, "until: %v", err).WithCode(fault.InvalidParameters).WithFix("use the syntax of RE2"))
			}
			if matched, err = followUntil(ctx, c, j.ExecID, from, wait, re); err != nil {
				return failure(err)
			}
		} else if err := waitForEnd(ctx, c, j.ExecID, wait); err != nil {
			return failure(err)
		}
		if j, exec, err = job(ctx, c); err != nil {
			return failure(err)
		}
	}
	all := exec.GetLogBytes()
	to := max(from, all)
	if page {
		to = max(from, min(to, from+headBytes+tailBytes))
	}
	output, err := excerpt(ctx, c, j, from, to)
	if err != nil {
		return failure(err)
	}
	output = strings.TrimRight(output, "\n")
	place := fmt.Sprintf("bytes %d to %d of its output", from, to)
	if to < all {
		place += fmt.Sprintf(", which has %d; continue with offset %d", all, to)
	}
	status := jobStatus(j, exec)
	if matched {
		status += "; the output matches"
	}
	if to == from {
		output = "(no new output)"
	}
	return Result{
		Observation: fmt.Sprintf("%s\n%s\n[%s]", status, output, place),
		Outcome:     map[string]any{"job_id": j.ID, "from": from, "to": to, "running": exec.GetState() != nodev1.ExecState_EXEC_STATE_ENDED},
		Progress:    &JobProgress{JobID: j.ID, ReadBytes: to},
	}, nil
}

// waitForEnd waits until a job has ended, or for at most a time.
func waitForEnd(ctx context.Context, c Call, execID string, most time.Duration) error {
	_, err := c.Node.Exec().WaitExec(ctx, &nodev1.WaitExecRequest{ExecId: execID, UntilEnd: true, Timeout: durationpb.New(most)})
	return err
}

// followUntil reads the output of a job from an offset until it matches an expression, the
// job ends, or the time is over. It reports whether it matched.
func followUntil(ctx context.Context, c Call, execID string, from int64, most time.Duration, re *regexp.Regexp) (bool, error) {
	following, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	stream, err := c.Node.Exec().ReadLog(following, &nodev1.ReadLogRequest{ExecId: execID, Offset: from, Follow: true})
	if err != nil {
		return false, err
	}
	var newest []byte
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) || err != nil && following.Err() != nil && ctx.Err() == nil {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		newest = append(newest, piece.GetData()...)
		if re.Match(newest) {
			return true, nil
		}
		if over := len(newest) - untilWindow; over > 0 {
			newest = newest[over:]
		}
	}
}

func runJobInput(ctx context.Context, c Call) (Result, error) {
	j, err := c.Jobs.Job(ctx, text(c.Arguments, "job"))
	if err != nil {
		return failure(err)
	}
	if j.Terminal {
		return failure(fault.New(fault.Invalid, "%s is a terminal", j.ID).WithCode(fault.InvalidParameters).WithFix("use %s", toolname.TerminalWrite))
	}
	var data []byte
	if _, ok := c.Arguments["text"]; ok {
		data = append([]byte(text(c.Arguments, "text")), '\n')
	}
	return giveInput(ctx, c, j, data)
}

// giveInput writes to the input of a job, once: the place is that after the input of the
// calls before, so that a repeated call writes nothing twice.
func giveInput(ctx context.Context, c Call, j Job, data []byte) (Result, error) {
	res, err := c.Node.Exec().WriteStdin(ctx, &nodev1.WriteStdinRequest{
		ExecId: j.ExecID, Offset: j.InputBytes, Data: data, Eof: flag(c.Arguments, "end"), Timeout: durationpb.New(inputWait),
	})
	if err != nil {
		return failure(err)
	}
	written := max(0, res.GetWritten()-j.InputBytes)
	result := Result{
		Observation: fmt.Sprintf("wrote %d bytes to %s", written, j.ID), Outcome: map[string]any{"job_id": j.ID, "written": written},
		Progress: &JobProgress{JobID: j.ID, InputBytes: res.GetWritten()},
	}
	if written < int64(len(data)) {
		result.Failed, result.Code = true, fault.ToolFailed
		result.Observation = fmt.Sprintf("error %s: %s took %d of %d bytes within %s, since it does not read its input; the rest was not written",
			fault.ToolFailed, j.ID, written, len(data), inputWait)
	}
	return result, nil
}

func runJobKill(ctx context.Context, c Call) (Result, error) {
	j, err := c.Jobs.Job(ctx, text(c.Arguments, "job"))
	if err != nil {
		return failure(err)
	}
	res, err := c.Node.Exec().KillExec(ctx, &nodev1.KillExecRequest{ExecId: j.ExecID, By: "the agent"})
	if err != nil {
		return failure(err)
	}
	return Result{
		Observation: jobStatus(j, res.GetExec()), Outcome: map[string]any{"job_id": j.ID, "members_left": res.GetExec().GetMembersLeft()},
	}, nil
}

func runJobList(ctx context.Context, c Call) (Result, error) {
	jobs, err := c.Jobs.List(ctx)
	if err != nil {
		return failure(err)
	}
	if len(jobs) == 0 {
		return Result{Observation: "this task has no jobs"}, nil
	}
	res, err := c.Node.Exec().ListExecs(ctx, &nodev1.ListExecsRequest{JailId: c.Jail.GetJailId()})
	if err != nil {
		return failure(err)
	}
	now := map[string]*nodev1.Exec{}
	for _, e := range res.GetExecs() {
		now[e.GetExecId()] = e
	}
	var lines strings.Builder
	for _, j := range jobs {
		exec := now[j.ExecID]
		if exec == nil {
			fmt.Fprintf(&lines, "%s has ended: %s\n", j.ID, j.Command)
			continue
		}
		fmt.Fprintf(&lines, "%s, %d bytes of output, of which you have read up to %d: %s\n", jobStatus(j, exec), exec.GetLogBytes(), j.ReadBytes, j.Command)
	}
	return Result{Observation: strings.TrimSuffix(lines.String(), "\n"), Outcome: map[string]any{"jobs": len(jobs)}}, nil
}
