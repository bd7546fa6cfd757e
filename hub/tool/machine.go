package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Machine is a node as its agents see it.
type Machine struct {
	Name   string
	Labels map[string]string
	// Status is "connected" or "disconnected".
	Status   string
	Runtimes []string
	// Blocked is why no task starts there now; empty if one may.
	Blocked string
	// Own reports that the task's workspace is there, and Host that the persona lets the agent
	// work on the machine itself.
	Own, Host bool
	// Usage and Info are what the node reports now; nil if it cannot be asked.
	Usage *nodev1.Usage
	Info  *nodev1.MachineInfo
}

// MachineLock is the lock of a node, held by the task of a call.
type MachineLock struct {
	ID string
	// Holder names the agent.
	Holder string
	Node   string
	Until  time.Time
	// Folders are those of the machine whose changes are recorded.
	Folders []string
}

// MachineExec is a command on a machine that is part of a call.
type MachineExec struct {
	ID       string
	Node     string
	State    string
	Reason   string
	Error    string
	ExitCode int32
	Duration time.Duration
	LogBytes int64
	// Asked is when it was stored, before its node was asked.
	Asked time.Time
}

// Machines is how a call works with machines themselves. Its errors that are a fault.Error and
// not of kind Unavailable are for the agent.
type Machines interface {
	// List returns the nodes of the organisation.
	List(ctx context.Context) ([]Machine, error)
	// Lock locks a node for the task, or returns the lock that the call took before.
	Lock(ctx context.Context, node, reason string, most time.Duration) (MachineLock, error)
	// Unlock releases the task's lock; false if it holds none.
	Unlock(ctx context.Context) (MachineLock, bool, error)
	// Held returns the lock that the task holds, and the link to its node.
	Held(ctx context.Context) (MachineLock, machine.Link, error)
	// Link returns the link to a node of the persona's host.nodes, or with an empty name to
	// the task's own, and the node's name.
	Link(ctx context.Context, node string) (machine.Link, string, error)
	// Select returns the names of the nodes that names and labels mean, in order.
	Select(ctx context.Context, names []string, selector map[string]string) ([]string, error)
	// Start starts a command on a node, once for each call and node, and Look returns how it
	// stands, after some time if it has not ended. Kill ends it.
	Start(ctx context.Context, node, command string, timeout time.Duration) (MachineExec, error)
	Look(ctx context.Context, id string, wait time.Duration) (MachineExec, error)
	Kill(ctx context.Context, id string) error
	// Tail returns the end of a command's output.
	Tail(ctx context.Context, e MachineExec, most int64) (string, error)
}

// asksAdmin is why only an administrator decides calls of the tools that hand out machines.
const asksAdmin = "it works on a machine itself and not in a jail, which only an administrator allows, each time"

// WhyAdmin returns why only an administrator decides each call of a tool, whatever the mode,
// the persona and the policies say; empty for a tool of which that is not so.
func (r *Registry) WhyAdmin(name string) string {
	if t := r.tools[name]; t != nil {
		return t.AdminDecides
	}
	return ""
}

const (
	lockTimeout     = 30 * time.Second
	maxLockMinutes  = 240
	hostTimeout     = 2 * time.Minute
	hostMaxTimeout  = time.Hour
	maxHostContent  = 1 << 20
	machinePreview  = 128 << 10
	hostLook        = 2 * time.Second
	hostFilesShown  = 50
	onMachineNotice = "It runs on the machine itself, as root, and not in a jail."
)

func machineTools() []*Tool {
	const (
		safe      = deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE
		moderate  = deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE
		dangerous = deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS
		hub       = deckhandv1.ToolPlace_TOOL_PLACE_HUB
		node      = deckhandv1.ToolPlace_TOOL_PLACE_NODE
	)
	return []*Tool{
		{
			Name: toolname.NodeList,
			Description: "List the nodes: their names, labels, load, free memory and disk, system and runtimes, and whether one is locked or drained. Use it to choose a node. " +
				`Example: {"labels": {"role": "web"}}.`,
			Kind: KindFleet, Expected: 2 * time.Second, Retryable: true,
			Category: safe, Place: hub, Idempotent: true, ReadOnly: true, Timeout: time.Minute, machines: true,
			schema: `{"type":"object","additionalProperties":false,"properties":{
				"labels":{"type":"object","maxProperties":20,"additionalProperties":{"type":"string","maxLength":128},"description":"Only nodes with all of these labels"}}}`,
			run: runNodeList,
		},
		{
			Name: toolname.NodeLock,
			Description: "Lock a node to work on the machine itself. An administrator is asked each time. While you hold the lock, host_exec, host_read and host_write work there, " +
				"and nobody else's commands start on that node; so ask for no longer than you need, and unlock it when you are done. It ends with your task, and after the minutes. " +
				"Do not wait for a subtask meanwhile: its commands wait for your lock. " +
				`Example: {"node": "web-1", "reason": "nginx does not reload: correct its configuration", "minutes": 20}.`,
			Kind: KindFleet, Expected: time.Second,
			Category: dangerous, Place: hub, Idempotent: true, Irreversible: "the time that others waited for the node", Timeout: lockTimeout,
			AdminDecides: asksAdmin, machines: true, previewBytes: machinePreview,
			schema: `{"type":"object","additionalProperties":false,"required":["node","reason","minutes"],"properties":{
				"node":{"type":"string","minLength":1,"maxLength":128,"description":"The name of the node"},
				"reason":{"type":"string","minLength":1,"maxLength":500,"pattern":"^[^\\r\\n]*\\S[^\\r\\n]*$","description":"What you will do there, on one line: all who wait see it"},
				"minutes":{"type":"integer","minimum":1,"maximum":240,"description":"After how long the lock ends at the latest"}}}`,
			run: runNodeLock, preview: previewNodeLock,
		},
		{
			Name:        toolname.NodeUnlock,
			Description: `Release the lock of the node that you hold, as soon as you are done on the machine, so that others go on. Example: {}.`,
			Kind:        KindFleet, Expected: time.Second,
			Category: safe, Place: hub, Idempotent: true, Reversible: true, Timeout: lockTimeout, machines: true,
			schema: `{"type":"object","additionalProperties":false,"properties":{}}`,
			run:    runNodeUnlock,
		},
		{
			Name: toolname.HostExec,
			Description: "Run a bash command as root on the machine whose node you have locked, outside of any jail, and wait for it to end. Use it for what a jail cannot do: services, packages, " +
				"configuration. For your own files use shell_exec. The folders that your persona names are recorded before and after, so that their changes can be undone. " +
				`Example: {"command": "nginx -t && systemctl reload nginx", "timeout_seconds": 60}.`,
			Kind: KindFleet, Returns: Foreign, Expected: 10 * time.Second,
			Category: dangerous, Place: node, Irreversible: "effects on the machine outside of the folders that the persona names", Timeout: hostMaxTimeout,
			runs: true, Machine: true, machines: true, previewBytes: machinePreview,
			schema: `{"type":"object","additionalProperties":false,"required":["command"],"properties":{
				"command":{"type":"string","minLength":1,"maxLength":131072,"description":"The command line, for bash -c"},
				"cwd":{"type":"string","maxLength":4096,"pattern":"^/","description":"Absolute folder of the machine to run in; /root by default"},
				"timeout_seconds":{"type":"integer","minimum":1,"maximum":3600,"description":"After how long it is killed; 120 by default, and never longer than your lock"}}}`,
			run: runHost, preview: previewHost,
		},
		{
			Name: toolname.HostRead,
			Description: "Read a text file, or list a folder, of the machine whose node you have locked, in the folders that your persona names. Returns the lines with their numbers. " +
				`Example: {"path": "/etc/nginx/nginx.conf", "offset": 1, "limit": 200}.`,
			Kind: KindFleet, Returns: Foreign, Expected: time.Second, Retryable: true,
			Category: safe, Place: hub, Idempotent: true, ReadOnly: true, Timeout: fileTimeout, machines: true, underLock: true,
			schema: `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
				"path":{"type":"string","minLength":2,"maxLength":4096,"pattern":"^/","description":"Absolute path on the machine"},
				"offset":{"type":"integer","minimum":1,"description":"Number of the first line to read; 1 by default"},
				"limit":{"type":"integer","minimum":1,"maximum":10000,"description":"At most this many lines; 2000 by default"}}}`,
			run: runHostRead,
		},
		{
			Name: toolname.HostWrite,
			Description: "Create a file on the machine whose node you have locked, or replace its whole content, in the folders that your persona names. Missing folders are created, and a file keeps its owner and mode. " +
				`Example: {"path": "/etc/nginx/conf.d/gzip.conf", "content": "gzip on;\n"}.`,
			Kind: KindFleet, Expected: time.Second,
			Category: moderate, Place: hub, Idempotent: true, Reversible: true, Timeout: fileTimeout, machines: true, underLock: true, previewBytes: machinePreview,
			schema: `{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{
				"path":{"type":"string","minLength":2,"maxLength":4096,"pattern":"^/","description":"Absolute path on the machine"},
				"content":{"type":"string","maxLength":1048576,"description":"The complete new content"},
				"expect_digest":{"type":"string","maxLength":64,"description":"SHA-256, in hex, that the file must have now, as host_read showed it; \"absent\" if it must not exist"}}}`,
			run: runHostWrite, preview: previewHostWrite,
		},
	}
}

// machineFailure returns an error of Machines as a result that the model can act on.
func machineFailure(err error) (Result, error) {
	if e := fault.As(err); e == nil {
		return Result{}, err
	}
	return failure(err)
}

func runNodeList(ctx context.Context, c Call) (Result, error) {
	all, err := c.Machines.List(ctx)
	if err != nil {
		return machineFailure(err)
	}
	want, _ := c.Arguments["labels"].(map[string]any)
	var b strings.Builder
	var names []any
	for _, m := range all {
		fits := true
		for key, value := range want {
			have, ok := m.Labels[key]
			fits = fits && ok && have == value
		}
		if !fits {
			continue
		}
		names = append(names, m.Name)
		b.WriteString(m.describe())
	}
	if len(names) == 0 {
		b.WriteString("no node has these labels")
	}
	return Result{Observation: strings.TrimSpace(b.String()), Outcome: map[string]any{"nodes": names}}, nil
}

func (m Machine) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", m.Name, m.Status)
	if m.Own {
		b.WriteString(", your workspace is here")
	}
	if m.Host {
		b.WriteString(", you may lock it with node_lock")
	}
	b.WriteString("\n")
	var labels []string
	for key, value := range m.Labels {
		labels = append(labels, key+"="+value)
	}
	slices.Sort(labels)
	if len(labels) > 0 {
		fmt.Fprintf(&b, "  labels: %s\n", strings.Join(labels, ", "))
	}
	if m.Blocked != "" {
		fmt.Fprintf(&b, "  %s\n", m.Blocked)
	}
	if u := m.Usage; u != nil {
		fmt.Fprintf(&b, "  load %.2f on %d CPUs; memory: %d of %d MiB free; disk: %d of %d GiB free\n", u.GetLoad(), u.GetCpus(),
			(u.GetMemoryLimitBytes()-u.GetMemoryBytes())>>20, u.GetMemoryLimitBytes()>>20, (u.GetDiskLimitBytes()-u.GetDiskBytes())>>30, u.GetDiskLimitBytes()>>30)
	}
	if i := m.Info; i != nil {
		systemd := i.GetSystemd()
		if systemd == "" {
			systemd = "none"
		}
		fmt.Fprintf(&b, "  %s, kernel %s, %s; systemd: %s\n", i.GetOs(), i.GetKernel(), i.GetArchitecture(), systemd)
	}
	if len(m.Runtimes) > 0 {
		fmt.Fprintf(&b, "  runtimes: %s\n", strings.Join(m.Runtimes, ", "))
	}
	return b.String()
}

func runNodeLock(ctx context.Context, c Call) (Result, error) {
	l, err := c.Machines.Lock(ctx, text(c.Arguments, "node"), text(c.Arguments, "reason"), time.Duration(number(c.Arguments, "minutes"))*time.Minute)
	if err != nil {
		return machineFailure(err)
	}
	recorded := "no folder is recorded there: what you change cannot be undone"
	if len(l.Folders) > 0 {
		recorded = "changes in " + strings.Join(l.Folders, ", ") + " can be undone; others cannot"
	}
	return Result{
		Observation: fmt.Sprintf("you hold the lock of node %s until %s; %s. Release it with %s when you are done.", l.Node, l.Until.UTC().Format(time.RFC3339), recorded, toolname.NodeUnlock),
		Outcome:     map[string]any{"lock_id": l.ID, "node": l.Node, "until": l.Until.UTC().Format(time.RFC3339)},
	}, nil
}

func previewNodeLock(arguments map[string]any) string {
	return fmt.Sprintf("Lock node %s for at most %d minutes, and until the task ends.\nMeanwhile the agent runs commands as root on the machine itself, not in a jail, and the commands of everybody else on this node wait.\nReason: %s",
		text(arguments, "node"), number(arguments, "minutes"), text(arguments, "reason"))
}

func runNodeUnlock(ctx context.Context, c Call) (Result, error) {
	l, held, err := c.Machines.Unlock(ctx)
	if err != nil {
		return machineFailure(err)
	}
	if !held {
		return Result{Observation: "you hold no lock", Outcome: map[string]any{"released": false}}, nil
	}
	return Result{Observation: "released the lock of node " + l.Node, Outcome: map[string]any{"released": true, "node": l.Node}}, nil
}

// lockEnded is the result of a call whose lock has ended before it was made.
func lockEnded() Result {
	return refusal(fault.New(fault.Precondition, "the lock has ended").WithCode(fault.NodeLocked).WithFix("lock the node again with %s", toolname.NodeLock))
}

func runHost(ctx context.Context, c Call) (Result, error) {
	if c.Lock == nil {
		return lockEnded(), nil
	}
	timeout := hostTimeout
	if n := number(c.Arguments, "timeout_seconds"); n > 0 {
		timeout = time.Duration(n) * time.Second
	}
	// The same for each request of the call: the node refuses another one under its id.
	timeout = min(timeout, max(c.Lock.Until.Sub(c.StartedAt).Truncate(time.Second), time.Second))
	dir := text(c.Arguments, "cwd")
	if dir == "" {
		dir = "/root"
	}
	c.Jail = &nodev1.JailSpec{JailId: nodelink.HostJail, Rootfs: nodelink.RootMachine}
	c.lookEvery = hostLook
	exec, err := execute(ctx, c, &nodev1.ExecSpec{
		ExecId: c.ExecID, JailId: nodelink.HostJail, Argv: []string{"/bin/bash", "-c", text(c.Arguments, "command")}, Dir: dir, Timeout: durationpb.New(timeout),
		Snapshot: len(c.Lock.Folders) > 0, HostPaths: c.Lock.Folders,
		HostLock: &nodev1.HostLock{LockId: c.Lock.ID, Holder: c.Lock.Holder, ExpiresAt: timestamppb.New(c.Lock.Until)},
	})
	if err != nil {
		return failure(err)
	}
	result, err := shellResult(ctx, c, exec)
	if err != nil {
		return result, err
	}
	if result.Code == "" && (exec.GetExitCode() != 0 || exec.GetSignal() != 0) {
		result.Failed, result.Code = true, fault.CommandFailed
	}
	result.OutOfMemory = false // the memory is the machine's: a retry with a larger limit would not help
	return withHostChanges(result, c.Lock.Node), nil
}

// withHostChanges moves what a call changed in folders of a machine from the workspace, which
// it is not part of, into the result's text and outcome.
func withHostChanges(r Result, node string) Result {
	w := r.Workspace
	r.Workspace = nil
	r.Outcome["node"], r.Outcome["host"] = node, true
	if w == nil {
		return r
	}
	if w.GetError() != "" {
		r.Observation += "\n[what it changed is not known: " + w.GetError() + "]"
		r.Outcome["host_error"] = w.GetError()
		return r
	}
	r.Machine = w
	r.Outcome["host_files"] = w.GetFiles()
	var shown []any
	for _, f := range w.GetChanges()[:min(len(w.GetChanges()), hostFilesShown)] {
		kind := strings.ToLower(strings.TrimPrefix(f.GetKind().String(), "CHANGE_KIND_"))
		name := strings.ToValidUTF8(string(f.GetPath()), "\uFFFD")
		shown = append(shown, map[string]any{"path": name, "change": kind})
		r.Observation += fmt.Sprintf("\n[%s %s]", kind, name)
	}
	if len(shown) > 0 {
		r.Outcome["host_changes"] = shown
	}
	if more := int(w.GetFiles()) - len(shown); more > 0 {
		r.Observation += fmt.Sprintf("\n[%d more files changed]", more)
	}
	return r
}

func previewHost(arguments map[string]any) string {
	dir := text(arguments, "cwd")
	if dir == "" {
		dir = "/root"
	}
	return onMachineNotice + "\nin " + dir + ":\n" + text(arguments, "command")
}

// heldFor returns the lock that a call on files of a machine is made under, with the link to its
// node. Only the lock under which the call was decided counts: the task may hold that of another
// machine by now.
func heldFor(ctx context.Context, c Call) (MachineLock, machine.Link, error) {
	l, link, err := c.Machines.Held(ctx)
	if err == nil && (c.Lock == nil || c.Lock.ID != l.ID) {
		err = fault.New(fault.Precondition, "the lock that you held when you called this has ended").WithCode(fault.NodeLocked).WithFix("call it again")
	}
	return l, link, err
}

// hostFile returns the folder of a lock that a file is in, as a node's id, and the file's path
// below it.
func hostFile(l MachineLock, name string) (jailID, rel string, err error) {
	folder, rel, ok := persona.Host{Paths: l.Folders}.Folder(name)
	if !ok {
		return "", "", fault.New(fault.Denied, "%s is in none of the folders that your persona names: %s", name, strings.Join(l.Folders, ", ")).
			WithCode(fault.SandboxViolation).WithFix("use a path in one of them")
	}
	return nodelink.HostFolder + folder, rel, nil
}

func runHostRead(ctx context.Context, c Call) (Result, error) {
	l, link, err := heldFor(ctx, c)
	if err != nil {
		return machineFailure(err)
	}
	name := text(c.Arguments, "path")
	jailID, rel, err := hostFile(l, name)
	if err != nil {
		return machineFailure(err)
	}
	first, most := max(number(c.Arguments, "offset"), 1), number(c.Arguments, "limit")
	if most == 0 {
		most = readLines
	}
	res, err := link.Files().ReadFile(ctx, &nodev1.ReadFileRequest{JailId: jailID, Path: rel, FirstLine: first, MaxLines: most, Limit: readBytes})
	if e := fault.As(fault.FromGRPC(err)); e != nil && e.Kind == fault.Precondition && strings.Contains(e.Message, "is a folder") {
		return listHost(ctx, link, jailID, rel, name)
	}
	if err != nil {
		return machineFailure(fault.FromGRPC(err))
	}
	content := string(res.GetContent())
	if !utf8.ValidString(content) {
		content = strings.ToValidUTF8(content, "\uFFFD")
	}
	numbered, shown := numberLines(content, first, readBytes)
	header := fmt.Sprintf("%s on %s: %d lines, %d bytes, sha256 %s; lines %d to %d follow", name, l.Node, res.GetTotalLines(), res.GetSize(), res.GetDigest(), first, first+shown-1)
	if shown == 0 {
		header = fmt.Sprintf("%s on %s: %d lines, %d bytes, sha256 %s; nothing from line %d on", name, l.Node, res.GetTotalLines(), res.GetSize(), res.GetDigest(), first)
	}
	return Result{
		Observation: header + "\n" + numbered,
		Outcome:     map[string]any{"node": l.Node, "path": name, "size": res.GetSize(), "digest": res.GetDigest()},
	}, nil
}

func listHost(ctx context.Context, link machine.Link, jailID, rel, name string) (Result, error) {
	res, err := link.Files().ListFiles(ctx, &nodev1.ListFilesRequest{JailId: jailID, Path: rel, Limit: listEntries})
	if err != nil {
		return machineFailure(fault.FromGRPC(err))
	}
	var b strings.Builder
	for _, f := range res.GetFiles() {
		fmt.Fprintf(&b, "%-7s %10d  %s  %s\n", f.GetType(), f.GetSize(), f.GetModifiedAt().AsTime().Format(time.RFC3339), f.GetPath())
	}
	if len(res.GetFiles()) == 0 {
		b.WriteString("(empty)\n")
	}
	if res.GetTruncated() {
		fmt.Fprintf(&b, "[only the first %d entries are shown]\n", listEntries)
	}
	return Result{Observation: name + ":\n" + b.String(), Outcome: map[string]any{"entries": len(res.GetFiles())}}, nil
}

func runHostWrite(ctx context.Context, c Call) (Result, error) {
	l, link, err := heldFor(ctx, c)
	if err != nil {
		return machineFailure(err)
	}
	name := text(c.Arguments, "path")
	jailID, rel, err := hostFile(l, name)
	if err != nil {
		return machineFailure(err)
	}
	res, err := link.Files().WriteFile(ctx, &nodev1.WriteFileRequest{
		JailId: jailID, Path: rel, Content: []byte(text(c.Arguments, "content")), ExpectDigest: text(c.Arguments, "expect_digest"), OperationId: c.ExecID,
	})
	if err != nil {
		return machineFailure(fault.FromGRPC(err))
	}
	done := "created"
	if res.GetReplaced() {
		done = "replaced"
	}
	r := Result{
		Observation: fmt.Sprintf("%s %s on %s: %d bytes, sha256 %s", done, name, l.Node, res.GetSize(), res.GetDigest()),
		Outcome:     map[string]any{"path": name, "size": res.GetSize(), "digest": res.GetDigest(), "replaced": res.GetReplaced()},
	}
	r.Outcome["node"], r.Outcome["host"], r.Outcome["host_files"] = l.Node, true, res.GetWorkspace().GetFiles()
	r.Machine = res.GetWorkspace()
	for _, f := range r.Machine.GetChanges() {
		f.Path = append([]byte(strings.TrimPrefix(jailID, nodelink.HostFolder)+"/"), f.GetPath()...)
	}
	return r, nil
}

func previewHostWrite(arguments map[string]any) string {
	content := text(arguments, "content")
	return fmt.Sprintf("On the machine itself, not in a jail:\n%s, %d bytes:\n%s", text(arguments, "path"), len(content), content)
}
