package tool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	manyAtOnce     = 5
	maxManyNodes   = 100
	manyMaxTimeout = 2 * time.Hour
	// manyTail is how much of the end of each output the model sees, in bytes.
	manyTail = 600
	// manyLook is how long one question for the state of a command waits.
	manyLook = 2 * time.Second
	// manyLost is how long a command whose node cannot be asked is waited for after its
	// time-out.
	manyLost = 20 * time.Second
	// manyRead bounds reading the end of one output.
	manyRead = 10 * time.Second
)

func manyTools() []*Tool {
	return []*Tool{{
		Name: toolname.NodeExecMany,
		Description: "Run one bash command as root on the machines of several nodes, outside of any jail, and return a table of the results. An administrator sees the nodes and the command, and decides. " +
			"Name the nodes, or select them by labels. At most at_most_at_once run at the same time, and after stop_after_failures failures no further one is started. Each takes the lock of its node while it runs. " +
			`Example: {"selector": {"role": "web"}, "command": "df -h /", "at_most_at_once": 3, "stop_after_failures": 1}.`,
		Kind: KindFleet, Returns: Foreign, Expected: time.Minute,
		Category: deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS, Place: deckhandv1.ToolPlace_TOOL_PLACE_HUB,
		// Each command has an id of its own, under which it starts once.
		Idempotent: true, Irreversible: "what the command does on the machines", Timeout: manyMaxTimeout,
		AdminDecides: asksAdmin, machines: true, previewBytes: machinePreview,
		schema: `{"type":"object","additionalProperties":false,"required":["command"],"oneOf":[{"required":["nodes"]},{"required":["selector"]}],"properties":{
			"nodes":{"type":"array","minItems":1,"maxItems":100,"uniqueItems":true,"items":{"type":"string","minLength":1,"maxLength":128},"description":"Names of nodes, in the order in which to begin"},
			"selector":{"type":"object","minProperties":1,"maxProperties":20,"additionalProperties":{"type":"string","maxLength":128},"description":"Labels that the nodes have"},
			"command":{"type":"string","minLength":1,"maxLength":131072,"description":"The command line, for bash -c"},
			"at_most_at_once":{"type":"integer","minimum":1,"maximum":100,"description":"How many run at the same time; 5 by default"},
			"stop_after_failures":{"type":"integer","minimum":1,"maximum":100,"description":"After how many failures no further one is started; without it, all are"},
			"timeout_seconds":{"type":"integer","minimum":1,"maximum":3600,"description":"After how long each is killed; 120 by default"}}}`,
		run: runMany, preview: previewMany, inspect: inspectMany,
	}}
}

func selectorOf(arguments map[string]any) map[string]string {
	raw, _ := arguments["selector"].(map[string]any)
	out := make(map[string]string, len(raw))
	for key, value := range raw {
		out[key], _ = value.(string)
	}
	return out
}

func previewMany(arguments map[string]any) string {
	stop := "all are run, whatever fails"
	if n := number(arguments, "stop_after_failures"); n > 0 {
		stop = fmt.Sprintf("no further one is started after %d failures", n)
	}
	return fmt.Sprintf("On the machines themselves, as root, and not in jails; at most %d at the same time, and %s. What it changes is not recorded, and cannot be undone:\n%s",
		cmp.Or(number(arguments, "at_most_at_once"), manyAtOnce), stop, text(arguments, "command"))
}

// manyState begins the inspected state; the names of the nodes follow.
const manyState = "nodes "

// inspectMany says which nodes a call is about: a selector's may change until it is made.
func inspectMany(ctx context.Context, c Call) (Inspection, error) {
	names, err := c.Machines.Select(ctx, texts(c.Arguments, "nodes"), selectorOf(c.Arguments))
	if e := fault.As(err); e != nil && e.Kind != fault.Unavailable && e.Kind != fault.Internal {
		return Inspection{Refused: e}, nil
	}
	if err != nil {
		return Inspection{}, err
	}
	return Inspection{
		State:   manyState + strings.Join(names, " "),
		Preview: fmt.Sprintf("On %d nodes:\n%s", len(names), strings.Join(names, "\n")),
	}, nil
}

// many is one call of node_exec_many while it runs.
type many struct {
	c       Call
	command string
	timeout time.Duration
	stop    int

	mu       sync.Mutex
	failures int
	rows     []MachineExec
	tails    []string
}

func runMany(ctx context.Context, c Call) (Result, error) {
	listed, ok := strings.CutPrefix(c.Approved, manyState)
	if !ok {
		return refusal(fault.New(fault.Denied, "no administrator has approved the list of nodes").WithCode(fault.PermissionDenied).WithFix("call it again")), nil
	}
	names := strings.Fields(listed)
	m := &many{
		c: c, command: text(c.Arguments, "command"), timeout: hostTimeout, stop: int(number(c.Arguments, "stop_after_failures")),
		rows: make([]MachineExec, len(names)), tails: make([]string, len(names)),
	}
	if n := number(c.Arguments, "timeout_seconds"); n > 0 {
		m.timeout = time.Duration(n) * time.Second
	}
	next := make(chan int)
	var group sync.WaitGroup
	var failed error
	for range min(int(cmp.Or(number(c.Arguments, "at_most_at_once"), manyAtOnce)), len(names)) {
		group.Go(func() {
			for i := range next {
				if err := m.one(ctx, i, names[i]); err != nil {
					m.mu.Lock()
					failed = cmp.Or(failed, err)
					m.mu.Unlock()
				}
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	group.Wait()
	if failed != nil {
		return Result{}, failed // it is asked for again, and finds what runs
	}
	return m.result(), nil
}

// one runs the command on one node, or finds how it ended. An error means that this is not
// known yet.
func (m *many) one(ctx context.Context, i int, name string) error {
	row := MachineExec{Node: name}
	m.mu.Lock()
	over := m.stop > 0 && m.failures >= m.stop
	m.mu.Unlock()
	switch {
	case !m.c.Live(ctx):
		row.Reason, row.Error = "not_started", "the call has ended"
	case over:
		row.Reason, row.Error = "not_started", fmt.Sprintf("%d others had failed", m.stop)
	default:
		var err error
		if row, err = m.follow(ctx, name); err != nil {
			return err
		}
	}
	row.Node = name
	// Before its output is read: whether further ones start depends on it.
	m.mu.Lock()
	if row.failed() && row.Reason != "not_started" {
		m.failures++
	}
	m.mu.Unlock()
	tail := ""
	if row.ID != "" && row.LogBytes > 0 {
		asked, cancel := context.WithTimeout(ctx, manyRead)
		defer cancel()
		var err error
		if tail, err = m.c.Machines.Tail(asked, row, manyTail); err != nil {
			tail = "(its output cannot be read now)"
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[i], m.tails[i] = row, tail
	return nil
}

func (e MachineExec) failed() bool { return e.Reason != "exited" || e.ExitCode != 0 }

// follow starts the command and waits for its end. A node that is lost is not waited for
// longer than the command may run.
func (m *many) follow(ctx context.Context, name string) (MachineExec, error) {
	row, err := m.c.Machines.Start(ctx, name, m.command, m.timeout)
	if e := fault.As(err); e != nil && e.Kind != fault.Internal && e.Kind != fault.Canceled && row.ID == "" {
		return MachineExec{Reason: "refused", Error: e.Explanation()}, nil
	}
	for err == nil && row.State != "ended" {
		if !m.c.Live(ctx) {
			if err := m.c.Machines.Kill(ctx, row.ID); err != nil && !fault.Is(err, fault.Unavailable) {
				return row, err
			}
		}
		// Since it was asked for: this call may be one of many that wait for it.
		if time.Since(row.Asked) > m.timeout+manyLost {
			row.Reason, row.Error = "lost", "the node does not say how it ended"
			return row, nil
		}
		row, err = m.c.Machines.Look(ctx, row.ID, manyLook)
	}
	return row, err
}

// result is the table of all nodes.
func (m *many) result() Result {
	var b strings.Builder
	rows := make([]any, 0, len(m.rows))
	good := 0
	fmt.Fprintf(&b, "%-24s %-12s %4s %9s  %s\n", "NODE", "OUTCOME", "EXIT", "DURATION", "EXEC")
	for _, r := range m.rows {
		exit, took := "", ""
		if r.Reason == "exited" {
			exit = fmt.Sprint(r.ExitCode)
		}
		if r.Duration > 0 {
			took = r.Duration.Round(10 * time.Millisecond).String()
		}
		if !r.failed() {
			good++
		}
		fmt.Fprintf(&b, "%-24s %-12s %4s %9s  %s\n", r.Node, r.Reason, exit, took, r.ID)
		rows = append(rows, map[string]any{
			"node": r.Node, "outcome": r.Reason, "exit_code": r.ExitCode, "duration_ms": r.Duration.Milliseconds(), "exec_id": r.ID, "error": r.Error,
		})
	}
	for i, r := range m.rows {
		if said := strings.TrimSpace(m.tails[i]); said != "" || r.Error != "" {
			fmt.Fprintf(&b, "\n%s: %s\n", r.Node, strings.TrimSpace(strings.TrimSpace(r.Error)+"\n"+said))
		}
	}
	out := Result{
		Observation: fmt.Sprintf("%d of %d succeeded\n%s", good, len(m.rows), b.String()),
		Outcome:     map[string]any{"nodes": rows, "succeeded": good, "failed": len(m.rows) - good},
	}
	if slices.ContainsFunc(m.rows, MachineExec.failed) {
		out.Failed, out.Code = true, fault.CommandFailed
	}
	return out
}
