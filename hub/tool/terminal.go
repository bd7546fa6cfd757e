package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/screen"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A terminal is a job with a screen: it has a job's limits, its log holds all bytes that
// its program wrote, and it ends like any job. The screen is made anew from the log for
// each look.

const (
	// The size of every terminal of an agent, in characters.
	terminalRows, terminalColumns = 40, 120
	// screenBytes is how much of the newest output a screen is made from: a program that
	// writes more without ever clearing its screen is rare.
	screenBytes = 1 << 20
	// quietTime is how long a program must write nothing until its screen counts as drawn,
	// and drawTime how long a call waits for that.
	quietTime = 300 * time.Millisecond
	drawTime  = 5 * time.Second
	// screenEvery is how often a call looks whether the screen has changed.
	screenEvery = 100 * time.Millisecond
)

// terminalKeys are the bytes of the keys that have a name, besides ctrl-a to ctrl-z.
var terminalKeys = map[string]string{
	"enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f", "delete": "\x1b[3~", "insert": "\x1b[2~",
	"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
	"page_up": "\x1b[5~", "page_down": "\x1b[6~",
	"f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~", "f6": "\x1b[17~",
	"f7": "\x1b[18~", "f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~", "f11": "\x1b[23~", "f12": "\x1b[24~",
}

func terminalTools() []*Tool {
	const (
		safe     = deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE
		moderate = deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE
		node     = deckhandv1.ToolPlace_TOOL_PLACE_NODE
		jobID    = `"job":{"type":"string","minLength":1,"maxLength":64,"description":"The terminal's id, as terminal_open returned it"}`
	)
	return []*Tool{
		{
			Name: toolname.TerminalOpen,
			Description: "Start a program on a terminal of 40 rows and 120 columns, and return what its screen shows. Use it only for a program that needs a terminal: " +
				"one that asks for answers with menus, an editor, a debugger, a REPL. For all other commands use shell_exec, which returns the whole output and the exit status. " +
				"A terminal is a job: list it with job_list, close it with terminal_close. " +
				`Example: {"command": "npm create vite@latest"}.`,
			Kind: KindWork, Returns: Fetched, Expected: 2 * time.Second,
			Category: moderate, Place: node, Irreversible: "effects outside /workspace (network, processes, /tmp)",
			Timeout: time.Minute, runs: true,
			schema: `{"type":"object","additionalProperties":false,"required":["command"],"properties":{
				"command":{"type":"string","minLength":1,"maxLength":131072,"description":"The command line, for bash -c; bash itself for a shell"},
				"cwd":{"type":"string","maxLength":4096,"description":"Folder to run in; /workspace by default"}}}`,
			run: runTerminalOpen, preview: previewShell,
		},
		{
			Name: toolname.TerminalWrite,
			Description: "Type text into a terminal, then press keys, and return what the screen shows when the program has drawn it. " +
				"Nothing is pressed unless you say so: to send a line, press enter. " +
				`Example: {"job": "job_3k9w", "text": "my-app", "keys": ["enter"]}.`,
			Kind: KindWork, Returns: Fetched, Expected: 2 * time.Second,
			Category: moderate, Place: node, Idempotent: true, Irreversible: "what the program does with its input", Timeout: time.Minute,
			schema: `{"type":"object","additionalProperties":false,"required":["job"],"minProperties":2,"properties":{` + jobID + `,
				"text":{"type":"string","minLength":1,"maxLength":65536,"description":"The text to type"},
				"keys":{"type":"array","minItems":1,"maxItems":50,"items":{"type":"string","pattern":"^(enter|tab|escape|backspace|delete|insert|up|down|left|right|home|end|page_up|page_down|f[1-9]|f1[0-2]|ctrl-[a-z])$"},
					"description":"The keys to press after it, such as enter, escape, tab, up, page_down, f1, ctrl-c"}}}`,
			run: runTerminalWrite,
		},
		{
			Name: toolname.TerminalRead,
			Description: "Return what the screen of a terminal shows, and where its cursor is. Wait for a text if the program takes time; do not call it in a tight loop. " +
				`Example: {"job": "job_3k9w", "wait_seconds": 20, "until": "Done in"}.`,
			Kind: KindWork, Returns: Fetched, Expected: time.Second, Retryable: true,
			Category: safe, Place: node, Idempotent: true, ReadOnly: true, Timeout: time.Minute,
			schema: `{"type":"object","additionalProperties":false,"required":["job"],"properties":{` + jobID + `,
				"above":{"type":"integer","minimum":1,"maximum":1000,"description":"Return so many lines, too, that scrolled off the top of the screen"},
				"wait_seconds":{"type":"integer","minimum":0,"maximum":30,"description":"Wait up to this long for the program to end, or for the expression; 0 by default"},
				"until":{"type":"string","minLength":1,"maxLength":1000,"description":"Wait only until the screen matches this regular expression (RE2)"}}}`,
			run: runTerminalRead,
		},
		{
			Name:        toolname.TerminalClose,
			Description: `Close a terminal: its program and all its processes are killed. Example: {"job": "job_3k9w"}.`,
			Kind:        KindWork, Expected: time.Second, Retryable: true,
			Category: moderate, Place: node, Idempotent: true, Irreversible: "the processes that it ends", Timeout: time.Minute,
			schema: `{"type":"object","additionalProperties":false,"required":["job"],"properties":{` + jobID + `}}`,
			run:    runJobKill,
		},
	}
}

func runTerminalOpen(ctx context.Context, c Call) (Result, error) {
	if refused, err := tooManyJobs(ctx, c); err != nil || refused != nil {
		return failure(cmp.Or[error](err, refused))
	}
	exec, err := execute(ctx, c, withShell(c, &nodev1.ExecSpec{
		ExecId: c.ExecID, JailId: c.Jail.GetJailId(), Dir: text(c.Arguments, "cwd"),
		Env: []string{"TERM=xterm-256color"}, Pty: &nodev1.Pty{Rows: terminalRows, Cols: terminalColumns},
		Timeout: durationpb.New(c.JobTime), BackgroundAfter: durationpb.New(0), Snapshot: true,
	}, text(c.Arguments, "command")))
	if err != nil {
		return failure(err)
	}
	if exec.GetJobSince() == nil {
		return shellResult(ctx, c, exec) // it could not be started
	}
	j := Job{ID: nodelink.JobID(c.ExecID), ExecID: c.ExecID, StartedAt: c.StartedAt, Terminal: true}
	result, err := drawn(ctx, c, j)
	result.Workspace = exec.GetWorkspace()
	result.Started = &StartedJob{ID: j.ID, Command: text(c.Arguments, "command"), Terminal: true}
	return result, err
}

// terminal returns the terminal that a call names.
func terminal(ctx context.Context, c Call) (Job, error) {
	j, err := c.Jobs.Job(ctx, text(c.Arguments, "job"))
	if err == nil && !j.Terminal {
		err = fault.New(fault.Invalid, "%s is no terminal", j.ID).WithCode(fault.InvalidParameters).WithFix("use %s and %s for it", toolname.JobOutput, toolname.JobInput)
	}
	return j, err
}

func runTerminalWrite(ctx context.Context, c Call) (Result, error) {
	j, err := terminal(ctx, c)
	if err != nil {
		return failure(err)
	}
	if at := strings.IndexFunc(text(c.Arguments, "text"), func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); at >= 0 {
		return failure(fault.New(fault.Invalid, "text has a control character at byte %d", at).WithCode(fault.InvalidParameters).WithFix("press it with keys, such as escape or ctrl-c"))
	}
	now, _, err := screenOf(ctx, c, j)
	if err != nil {
		return failure(err)
	}
	typed, err := giveInput(ctx, c, j, keystrokes(c.Arguments, now.ApplicationKeys()))
	if err != nil || typed.Failed {
		return typed, err
	}
	result, err := drawn(ctx, c, j)
	result.Progress = typed.Progress
	return result, err
}

// keystrokes returns the bytes that a call types.
func keystrokes(arguments map[string]any, application bool) []byte {
	typed := []byte(strings.ReplaceAll(text(arguments, "text"), "\n", "\r"))
	keys, _ := arguments["keys"].([]any)
	for _, key := range keys {
		name, _ := key.(string)
		if letter, ok := strings.CutPrefix(name, "ctrl-"); ok {
			typed = append(typed, letter[0]&0x1f)
			continue
		}
		code := terminalKeys[name]
		if arrow, ok := strings.CutPrefix(code, "\x1b["); ok && application && len(arrow) == 1 {
			code = "\x1bO" + arrow
		}
		typed = append(typed, code...)
	}
	return typed
}

func runTerminalRead(ctx context.Context, c Call) (Result, error) {
	j, err := terminal(ctx, c)
	if err != nil {
		return failure(err)
	}
	var until *regexp.Regexp
	if expression := text(c.Arguments, "until"); expression != "" {
		if until, err = regexp.Compile(expression); err != nil {
			return failure(fault.New(fault.Invalid, "until: %v", err).WithCode(fault.InvalidParameters).WithFix("use the syntax of RE2"))
		}
	}
	wait := c.StartedAt.Add(min(time.Duration(number(c.Arguments, "wait_seconds"))*time.Second, jobWait))
	result, err := watchScreen(ctx, c, j, func(seen string, _ time.Duration) bool {
		return time.Now().After(wait) || until != nil && until.MatchString(seen)
	})
	if err != nil {
		return failure(err)
	}
	return result, nil
}

// drawn returns the screen of a terminal when its program has written nothing for a short
// while.
func drawn(ctx context.Context, c Call, j Job) (Result, error) {
	began := time.Now()
	result, err := watchScreen(ctx, c, j, func(_ string, quiet time.Duration) bool { return quiet >= quietTime || time.Since(began) >= drawTime })
	if err != nil {
		return failure(err)
	}
	return result, nil
}

// watchScreen returns the screen of a terminal when its program has ended, or enough says
// so of what the screen shows and of the time for which nothing was written.
func watchScreen(ctx context.Context, c Call, j Job, enough func(seen string, quiet time.Duration) bool) (Result, error) {
	changed, written, seen := time.Now(), int64(-1), Result{}
	for {
		res, err := c.Node.Exec().GetExec(ctx, &nodev1.GetExecRequest{ExecId: j.ExecID})
		if err != nil {
			return Result{}, err
		}
		exec := res.GetExec()
		if exec.GetLogBytes() != written || exec.GetState() == nodev1.ExecState_EXEC_STATE_ENDED {
			if seen, err = screenResult(ctx, c, j, exec); err != nil {
				return Result{}, err
			}
			changed, written = time.Now(), exec.GetLogBytes()
		}
		if exec.GetState() == nodev1.ExecState_EXEC_STATE_ENDED || enough(seen.Observation, time.Since(changed)) {
			return seen, nil
		}
		select {
		case <-ctx.Done():
			return Result{}, ctx.Err()
		case <-time.After(screenEvery):
		}
	}
}

// screenResult shows the screen of a terminal to the agent.
func screenResult(ctx context.Context, c Call, j Job, exec *nodev1.Exec) (Result, error) {
	now, cut, err := screenOf(ctx, c, j)
	if err != nil {
		return Result{}, err
	}
	shown, row, column, err := now.Text(int(number(c.Arguments, "above")))
	if err != nil {
		return Result{}, fault.New(fault.Precondition, "%v", err).WithCode(fault.ToolFailed).WithFix("read its bytes: %s", toolname.JobOutput)
	}
	place := fmt.Sprintf("cursor in row %d, column %d", row, column)
	if cut {
		place += "; made from the newest part of the output, and maybe not complete"
	}
	if shown == "" {
		shown = "(the screen is empty)"
	}
	return Result{
		Observation: fmt.Sprintf("%s\n%s\n[%s]", jobStatus(j, exec), strings.ToValidUTF8(shown, "\uFFFD"), place), LogBytes: exec.GetLogBytes(),
		Outcome: map[string]any{"job_id": j.ID, "row": row, "column": column, "running": exec.GetState() != nodev1.ExecState_EXEC_STATE_ENDED},
	}, nil
}

// screenOf makes the screen of a terminal from its log. cut reports that the log is too
// long for all of it to be read.
func screenOf(ctx context.Context, c Call, j Job) (now *screen.Screen, cut bool, err error) {
	stream, err := c.Node.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: j.ExecID, TailBytes: screenBytes})
	if err != nil {
		return nil, false, fmt.Errorf("read log of %s: %w", j.ExecID, err)
	}
	now = screen.New(terminalRows, terminalColumns)
	for first := true; ; first = false {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return now, cut, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("read log of %s: %w", j.ExecID, err)
		}
		cut = cut || first && piece.GetOffset() > 0 || piece.GetGap() != nil
		now.Write(piece.GetData())
	}
}
