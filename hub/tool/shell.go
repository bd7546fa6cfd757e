package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/internal/traceparent"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	shellExec       = toolname.ShellExec
	shellTimeout    = 2 * time.Minute
	shellMaxTimeout = time.Hour
	// What the model sees of a command's output: so much of its head and tail.
	headBytes = 8 << 10
	tailBytes = 8 << 10
	// waitStep is how long one question to the node waits for an end.
	waitStep = 20 * time.Second
	// startWait is how long the start of a command waits: most commands end within it.
	startWait = 250 * time.Millisecond
)

func shellTools() []*Tool {
	return []*Tool{{
		Name: shellExec,
		Description: "Run a bash command in the workspace and wait for it to end. Use it to build, test, use git, and inspect the system; " +
			"to read, edit or search files, use the file tools. Returns the exit status, and standard output and standard error together; " +
			"long output is shortened in the middle. Each call is a new shell in /workspace: folder and variables do not carry over. " +
			"There is no terminal and no input, so pass flags such as --yes. For servers and long builds set background: the call returns the id of a job at once. " +
			"A command that is not done after timeout_seconds becomes a job too, and goes on. " +
			`Example: {"command": "go test ./... 2>&1 | tail -n 40", "timeout_seconds": 600}.`,
		Kind:         KindWork,
		Returns:      Fetched,
		Expected:     10 * time.Second,
		Category:     deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE,
		Place:        deckhandv1.ToolPlace_TOOL_PLACE_NODE,
		Irreversible: "effects outside /workspace (network, processes, /tmp)",
		Timeout:      shellMaxTimeout, runs: true,
		schema: `{"type":"object","additionalProperties":false,"required":["command"],"properties":{
			"command":{"type":"string","minLength":1,"maxLength":131072,"description":"The command line, for bash -c"},
			"timeout_seconds":{"type":"integer","minimum":1,"maximum":3600,"description":"How long to wait for the command; 120 by default"},
			"on_timeout":{"enum":["background","kill"],"description":"What happens to a command that is not done by then: it goes on as a job, which is the default, or it is killed with all its processes"},
			"background":{"type":"boolean","description":"Do not wait: run it as a job. Its output is read with job_output"},
			"cwd":{"type":"string","maxLength":4096,"description":"Folder to run in; /workspace by default"}}}`,
		run: runShell, preview: previewShell,
	}}
}

func runShell(ctx context.Context, c Call) (Result, error) {
	timeout := shellTimeout
	if n := number(c.Arguments, "timeout_seconds"); n > 0 {
		timeout = time.Duration(n) * time.Second
	}
	spec := withShell(c, &nodev1.ExecSpec{
		ExecId: c.ExecID, JailId: c.Jail.GetJailId(), Dir: text(c.Arguments, "cwd"), Timeout: durationpb.New(timeout),
		Snapshot: true,
	}, text(c.Arguments, "command"))
	switch {
	case flag(c.Arguments, "background"):
		if refused, err := tooManyJobs(ctx, c); err != nil || refused != nil {
			return failure(cmp.Or[error](err, refused))
		}
		spec.Timeout, spec.BackgroundAfter, spec.StdinOpen = durationpb.New(c.JobTime), durationpb.New(0), true
	case text(c.Arguments, "on_timeout") != "kill":
		spec.Timeout, spec.BackgroundAfter = durationpb.New(timeout+c.JobTime), durationpb.New(timeout)
	}
	exec, err := execute(ctx, c, spec)
	if err != nil {
		return failure(err)
	}
	if exec.GetJobSince() != nil {
		return jobResult(ctx, c, exec)
	}
	result, err := shellResult(ctx, c, exec)
	if err == nil && result.Code == "" && (exec.GetExitCode() != 0 || exec.GetSignal() != 0) {
		// The observation says the status already: to the model it is a result like any
		// other.
		result.Failed, result.Code = true, fault.CommandFailed
	}
	return result, err
}

// execute runs a command, or re-attaches to it, and returns its end, or its state when it
// became a job.
func execute(ctx context.Context, c Call, spec *nodev1.ExecSpec) (*nodev1.Exec, error) {
	if c.Traceparent != "" {
		spec.Env = append(spec.Env, traceparent.Variable+"="+c.Traceparent)
	}
	spec.Env = append(spec.Env, c.Env...)
	if c.OfflineGrace > 0 {
		spec.OfflineGrace = durationpb.New(c.OfflineGrace)
	}
	spec.OutputLimitBytes = c.OutputLimit
	if c.Lock != nil && !c.Live(ctx) {
		// Its lock has ended: what the node does not have yet is never started.
		if _, err := c.Node.Exec().KillExec(ctx, &nodev1.KillExecRequest{ExecId: c.ExecID, By: "hub: its lock has ended"}); err != nil {
			return nil, err
		}
	}
	var exec *nodev1.Exec
	err := inJail(ctx, c, func() error {
		res, err := c.Node.Exec().StartExec(ctx, &nodev1.StartExecRequest{Spec: spec, Wait: durationpb.New(startWait)})
		exec = res.GetExec()
		return err
	})
	if err != nil {
		return exec, err
	}
	return await(ctx, c, exec)
}

// await waits for the end of a command that its node has.
func await(ctx context.Context, c Call, exec *nodev1.Exec) (*nodev1.Exec, error) {
	var err error
	for err == nil && exec.GetState() != nodev1.ExecState_EXEC_STATE_ENDED && exec.GetJobSince() == nil {
		// Checked once the node has the command: a kill that comes from now on finds it
		// there. An earlier one may have come before the start, and found nothing.
		if !c.Live(ctx) {
			if _, err = c.Node.Exec().KillExec(ctx, &nodev1.KillExecRequest{ExecId: c.ExecID, By: "hub: its step has ended"}); err != nil {
				break
			}
		}
		var res *nodev1.WaitExecResponse
		res, err = c.Node.Exec().WaitExec(ctx, &nodev1.WaitExecRequest{ExecId: c.ExecID, Timeout: durationpb.New(cmp.Or(c.lookEvery, waitStep))})
		exec = res.GetExec()
	}
	if err == nil && c.Ran != nil {
		c.Ran(ctx, exec)
	}
	return exec, err
}

func shellResult(ctx context.Context, c Call, exec *nodev1.Exec) (Result, error) {
	output, err := excerpt(ctx, c, Job{ID: c.StepID, ExecID: c.ExecID}, 0, exec.GetLogBytes())
	if err != nil {
		return Result{}, err
	}
	status, code := describe(exec)
	return Result{
		Observation: status + "\n" + output, Code: code,
		Failed:      code != "",
		Unknown:     code == fault.OutcomeUnknown,
		OutOfMemory: exec.GetEndReason() == nodev1.EndReason_END_REASON_OUT_OF_MEMORY,
		NotStarted:  exec.GetEndReason() == nodev1.EndReason_END_REASON_NOT_STARTED,
		LogBytes:    exec.GetLogBytes(),
		Outcome:     outcome(exec),
		// Whatever ran, and however it ended.
		Workspace: exec.GetWorkspace(),
	}, nil
}

// outcome is how a command ended, for programs.
func outcome(exec *nodev1.Exec) map[string]any {
	out := map[string]any{
		"end_reason": strings.ToLower(strings.TrimPrefix(exec.GetEndReason().String(), "END_REASON_")),
		"exit_code":  exec.GetExitCode(), "log_bytes": exec.GetLogBytes(), "members_left": exec.GetMembersLeft(),
	}
	if exec.GetSignal() != 0 {
		out["signal"] = exec.GetSignal()
	}
	if use := exec.GetEgress(); use != nil {
		out["egress"] = egressOutcome(use)
	}
	return out
}

// OutcomeOf is how a command ended as it is stored with its step.
func OutcomeOf(exec *nodev1.Exec) json.RawMessage {
	data, err := json.Marshal(outcome(exec))
	if err != nil {
		return json.RawMessage("{}") // strings and numbers always encode
	}
	return data
}

// describe returns a text about how a command ended. A command that ran and returned an
// exit status has not failed as a tool: the status is its result.
func describe(exec *nodev1.Exec) (string, fault.Code) {
	switch exec.GetEndReason() {
	case nodev1.EndReason_END_REASON_EXITED:
		return fmt.Sprintf("exit status %d", exec.GetExitCode()), ""
	case nodev1.EndReason_END_REASON_SIGNALLED:
		return fmt.Sprintf("ended by signal %d", exec.GetSignal()), ""
	case nodev1.EndReason_END_REASON_TIMED_OUT:
		return fmt.Sprintf("error %s: killed, because it ran longer than its time-out", fault.ExecutionTimeout), fault.ExecutionTimeout
	case nodev1.EndReason_END_REASON_KILLED:
		if exec.GetKilledBy() == nodelink.OfflineGrace {
			return fmt.Sprintf("error %s: killed, because its node was cut off from the hub for longer than its offline grace", fault.Killed), fault.Killed
		}
		return fmt.Sprintf("error %s: killed by %s", fault.Killed, exec.GetKilledBy()), fault.Killed
	case nodev1.EndReason_END_REASON_UNKNOWN:
		return fmt.Sprintf("error %s: nobody knows how the command ended, for example because the machine rebooted under it", fault.OutcomeUnknown),
			fault.OutcomeUnknown
	case nodev1.EndReason_END_REASON_START_FAILED:
		return fmt.Sprintf("error %s: the command could not be started: %s", fault.ToolFailed, exec.GetStartError()), fault.ToolFailed
	case nodev1.EndReason_END_REASON_OUT_OF_MEMORY:
		return fmt.Sprintf("error %s: killed, because the jail ran out of memory", fault.ToolFailed), fault.ToolFailed
	case nodev1.EndReason_END_REASON_OUTPUT_LIMIT:
		return fmt.Sprintf("error %s: killed, because it wrote more output than its limit; send what is long to a file", fault.ToolFailed), fault.ToolFailed
	case nodev1.EndReason_END_REASON_DISK_FULL:
		return fmt.Sprintf("error %s: the node's disk is full. Find what is large with `du -xh -d2 /workspace /tmp | sort -h | tail`, and delete what you do not need. "+
			"If that is not enough, tell a person that an administrator can delete unused images there: deckhand node image prune NODE", fault.ToolFailed), fault.ToolFailed
	case nodev1.EndReason_END_REASON_JAIL_LOST:
		return fmt.Sprintf("error %s: the jail died under the command; what it had done until then stays done", fault.OutcomeUnknown),
			fault.OutcomeUnknown
	default:
		return fmt.Sprintf("error %s: the command was never started", fault.ToolFailed), fault.ToolFailed
	}
}

// excerpt returns the output of a command between two offsets, or its head and tail with a
// citation of what was left out.
func excerpt(ctx context.Context, c Call, of Job, from, to int64) (string, error) {
	if to <= from {
		return "(no output)", nil
	}
	if to-from <= headBytes+tailBytes {
		return readLog(ctx, c, of.ExecID, from, to-from)
	}
	head, err := readLog(ctx, c, of.ExecID, from, headBytes)
	if err != nil {
		return "", err
	}
	tail, err := readLog(ctx, c, of.ExecID, to-tailBytes, tailBytes)
	if err != nil {
		return "", err
	}
	if c.Lock != nil {
		return fmt.Sprintf("%s\n[... bytes %d to %d of %d left out; run the command again with its output in a file to read all of it ...]\n%s", head, from+headBytes, to-tailBytes, to, tail), nil
	}
	return fmt.Sprintf(`%s
[... bytes %d to %d of %d left out; all of it is in %s/%s; to read on: %s {"job": %q, "offset": %d} ...]
%s`,
		head, from+headBytes, to-tailBytes, to, nodelink.OutputsPath, of.ExecID, toolname.JobOutput, of.ID, from+headBytes, tail), nil
}

func readLog(ctx context.Context, c Call, execID string, offset, limit int64) (string, error) {
	stream, err := c.Node.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: execID, Offset: offset, Limit: limit})
	if err != nil {
		return "", fmt.Errorf("read log of %s: %w", execID, err)
	}
	var b strings.Builder
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return strings.ToValidUTF8(b.String(), "\uFFFD"), nil
		}
		if err != nil {
			return "", fmt.Errorf("read log of %s: %w", execID, err)
		}
		b.Write(piece.GetData())
	}
}
