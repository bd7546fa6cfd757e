package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// execs is what the test hub answers about people's commands.
type execs struct {
	// pieces are what the command writes; cut breaks the stream once before the
	// piece of that number.
	pieces []*deckhandv1.ReadNodeLogResponse
	cut    int
	// end is what becomes of it. running makes it go on until it is killed.
	end     *deckhandv1.NodeExec
	running chan struct{}
	killed  chan struct{}
	matches []*deckhandv1.NodeLogMatch
}

func (h *testHub) StartNodeExec(_ context.Context, req *deckhandv1.StartNodeExecRequest) (*deckhandv1.StartNodeExecResponse, error) {
	if req.GetHost() && req.GetReason() == "locked" {
		return nil, fault.New(fault.Precondition, "node web-1 is locked by bob: kernel").WithCode(fault.NodeLocked).WithFix("wait")
	}
	return &deckhandv1.StartNodeExecResponse{Exec: &deckhandv1.NodeExec{Id: "nexec_1"}}, nil
}

func (h *testHub) GetNodeExec(context.Context, *deckhandv1.GetNodeExecRequest) (*deckhandv1.GetNodeExecResponse, error) {
	end := h.execs.end
	end.Id, end.State = "nexec_1", deckhandv1.NodeExecState_NODE_EXEC_STATE_ENDED
	return &deckhandv1.GetNodeExecResponse{Exec: end}, nil
}

func (h *testHub) KillNodeExec(context.Context, *deckhandv1.KillNodeExecRequest) (*deckhandv1.KillNodeExecResponse, error) {
	close(h.execs.killed)
	return &deckhandv1.KillNodeExecResponse{Exec: &deckhandv1.NodeExec{Id: "nexec_1", EndReason: "killed"}}, nil
}

func (h *testHub) ReadNodeLog(ctx context.Context, req *deckhandv1.ReadNodeLogRequest, out *connect.ServerStream[deckhandv1.ReadNodeLogResponse]) error {
	h.mu.Lock()
	cut := h.execs.cut
	h.execs.cut = 0
	h.last["ReadNodeLogRequest"] = req
	h.mu.Unlock()
	for i, p := range h.execs.pieces {
		if p.GetOffset() < req.GetOffset() {
			continue
		}
		if cut > 0 && i == cut {
			return connect.NewError(connect.CodeUnavailable, errors.New("cut"))
		}
		if err := out.Send(p); err != nil {
			return err
		}
	}
	if h.execs.running != nil {
		close(h.execs.running)
		<-ctx.Done()
	}
	return nil
}

func (h *testHub) SearchNodeLog(context.Context, *deckhandv1.SearchNodeLogRequest) (*deckhandv1.SearchNodeLogResponse, error) {
	return &deckhandv1.SearchNodeLogResponse{Matches: h.execs.matches, Complete: true}, nil
}

func (h *testHub) LockNode(_ context.Context, req *deckhandv1.LockNodeRequest) (*deckhandv1.LockNodeResponse, error) {
	return &deckhandv1.LockNodeResponse{ActiveTasks: 2, Lock: &deckhandv1.NodeLock{
		NodeName: req.GetNodeId(), By: "alice", Reason: req.GetReason(),
	}}, nil
}

func (h *testHub) WatchNodeTelemetry(_ context.Context, _ *deckhandv1.WatchNodeTelemetryRequest, out *connect.ServerStream[deckhandv1.WatchNodeTelemetryResponse]) error {
	num := func(n int64) *int64 { return &n }
	return out.Send(&deckhandv1.WatchNodeTelemetryResponse{
		Host: &deckhandv1.NodeUsage{CpuMillis: num(1500), MemoryBytes: num(3 << 20)},
		Jails: []*deckhandv1.NodeUsage{{
			JailId: "jail_1", AgentName: "triage", Pids: num(3), PidsLimit: num(512), MemoryBytes: num(1 << 20), MemoryLimitBytes: num(4 << 20),
		}},
	})
}

// OpenTerminal shows what is typed, upside, and ends at "exit".
func (h *testHub) OpenTerminal(_ context.Context, stream *connect.BidiStream[deckhandv1.OpenTerminalRequest, deckhandv1.OpenTerminalResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.last["Open"] = first.GetOpen()
	h.mu.Unlock()
	say := func(text string) error {
		return stream.Send(&deckhandv1.OpenTerminalResponse{Message: &deckhandv1.OpenTerminalResponse_Output{Output: []byte(text)}})
	}
	if err := stream.Send(&deckhandv1.OpenTerminalResponse{Message: &deckhandv1.OpenTerminalResponse_Opened{Opened: &deckhandv1.NodeExec{Id: "nexec_1"}}}); err != nil {
		return err
	}
	if err := say("\x1b[1;31mHOST:web-1\x1b[0m # "); err != nil {
		return err
	}
	typed := ""
	for !strings.Contains(typed, "exit") {
		m, err := stream.Receive()
		if err != nil {
			return err
		}
		typed += string(m.GetInput())
		if err := say(strings.ToUpper(string(m.GetInput()))); err != nil {
			return err
		}
	}
	return stream.Send(&deckhandv1.OpenTerminalResponse{Message: &deckhandv1.OpenTerminalResponse_Ended{
		Ended: &deckhandv1.NodeExec{Id: "nexec_1", EndReason: "exited", ExitCode: 9},
	}})
}

func piece(offset int64, stream, data string) *deckhandv1.ReadNodeLogResponse {
	return &deckhandv1.ReadNodeLogResponse{Offset: offset, Stream: stream, Data: []byte(data), Time: timestamppb.New(time.Unix(offset, 0))}
}

// Streams apart, byte for byte, over a cut link; the exit code is the
// command's own.
func TestNodeExecIsTheCommandItRuns(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.execs = execs{cut: 2, end: &deckhandv1.NodeExec{EndReason: "exited", ExitCode: 42}, pieces: []*deckhandv1.ReadNodeLogResponse{
		piece(0, "stdout", "a\x00\xff"), piece(3, "stderr", "b"), piece(4, "stdout", "c\n"),
	}}
	got := h.run(t, "node", "exec", "web-1", "--agent", "triage", "--hub", h.url, "--token", testToken, "--", "sh", "-c", "exit 42")
	require.Equal(t, 42, got.code)
	require.Equal(t, "a\x00\xffc\n", got.stdout)
	require.Equal(t, "b", got.stderr, "nothing but what the command wrote")
	request, ok := h.last["StartNodeExecRequest"].(*deckhandv1.StartNodeExecRequest)
	require.True(t, ok)
	require.Equal(t, []string{"sh", "-c", "exit 42"}, request.GetArgv()[:3])
	require.Equal(t, "triage", request.GetAgentId())
}

func TestExitCodesOfCommandsThatDidNotEndByThemselves(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		end  *deckhandv1.NodeExec
		code int
		text string
	}{
		"success":                {&deckhandv1.NodeExec{EndReason: "exited"}, 0, ""},
		"a signal":               {&deckhandv1.NodeExec{EndReason: "signalled", Signal: 15}, 143, ""},
		"the time-out":           {&deckhandv1.NodeExec{EndReason: "timed_out"}, 124, "--timeout"},
		"killed by somebody":     {&deckhandv1.NodeExec{EndReason: "killed", KilledBy: "bob"}, 137, "killed by bob"},
		"out of memory":          {&deckhandv1.NodeExec{EndReason: "out_of_memory"}, 137, "memory"},
		"a command not found":    {&deckhandv1.NodeExec{EndReason: "start_failed", Error: "exec: not found in PATH"}, 127, "not found"},
		"a command not runnable": {&deckhandv1.NodeExec{EndReason: "start_failed", Error: "permission denied"}, 126, "permission denied"},
		"nobody knows":           {&deckhandv1.NodeExec{EndReason: "unknown"}, 125, "nobody can tell"},
		"the jail died":          {&deckhandv1.NodeExec{EndReason: "jail_lost"}, 125, "jail_lost"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			h.execs = execs{end: c.end}
			got := execute(t.Context(), "node", "exec", "web-1", "--host", "--hub", h.url, "--token", testToken, "--", "true")
			require.Equal(t, c.code, got.code, got.stderr)
			require.Contains(t, got.stderr, c.text)
		})
	}
}

func TestCtrlCKillsTheCommand(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.execs = execs{end: &deckhandv1.NodeExec{}, running: make(chan struct{}), killed: make(chan struct{})}
	ctx, press := context.WithCancel(t.Context())
	go func() {
		<-h.execs.running
		press()
	}()
	got := execute(ctx, "node", "exec", "web-1", "--agent", "triage", "--hub", h.url, "--token", testToken, "--", "sleep", "1000")
	require.Equal(t, 130, got.code)
	require.Contains(t, got.stderr, "interrupted: nexec_1 was killed, 0 of its processes are left")
	<-h.execs.killed
}

func TestNodeExecTypedWrongIsUsage(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for what, c := range map[string]struct {
		args []string
		want string
	}{
		"no node":             {[]string{"node", "exec", "--", "ls"}, "NODE is missing"},
		"no command":          {[]string{"node", "exec", "web-1", "--host"}, "put it behind --"},
		"no place":            {[]string{"node", "exec", "web-1", "--", "ls"}, "--agent AGENT, --task TASK or --host"},
		"two places":          {[]string{"node", "exec", "web-1", "--host", "--agent", "x", "--", "ls"}, "one of them"},
		"a shell without tty": {[]string{"node", "shell", "web-1", "--host"}, "needs a terminal"},
		"a lock without why":  {[]string{"node", "lock", "web-1"}, "--reason is missing"},
		"two beginnings":      {[]string{"node", "logs", "web-1", "x", "--tail", "1", "--since", "1m"}, "give one of"},
		"no wait to end":      {[]string{"node", "drain", "web-1", "--timeout", "1m"}, "add --wait"},
		"a wait below zero":   {[]string{"workers", "drain", "w", "--wait", "--timeout", "-1m"}, "--timeout is -1m0s"},
		"a time that is none": {[]string{"node", "logs", "web-1", "x", "--since", "noon"}, "neither a time"},
	} {
		args := append(c.args[:2:2], append([]string{"--hub", h.url, "--token", testToken}, c.args[2:]...)...)
		got := execute(t.Context(), args...)
		require.Equal(t, 2, got.code, "%s: %s", what, got.stderr)
		require.Contains(t, got.errorLine(t), c.want, what)
	}
	got := execute(t.Context(), "node", "exec", "web-1", "--host", "--reason", "locked", "--hub", h.url, "--token", testToken, "--", "ls")
	require.Equal(t, 1, got.code)
	require.Equal(t, "error: node web-1 is locked by bob: kernel: wait (AGENT_019)\n", got.stderr)
}

// A search shows places; --since is a time for the node to begin with.
func TestNodeLogs(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.execs = execs{
		end:     &deckhandv1.NodeExec{EndReason: "exited", ExitCode: 1, StartedAt: timestamppb.New(time.Unix(0, 0)), FinishedAt: timestamppb.New(time.Unix(9, 0))},
		matches: []*deckhandv1.NodeLogMatch{{Offset: 17, Length: 3, Stream: "stdout", Excerpt: []byte("a bad day\x1b[2J")}},
		pieces: []*deckhandv1.ReadNodeLogResponse{
			{Resize: &deckhandv1.TerminalSize{Rows: 24, Cols: 100}, Time: timestamppb.New(time.Unix(0, 0))},
			piece(0, "pty", "hi"), {Offset: 2, GapTo: 1026, GapReason: "disk_full"}, piece(1026, "pty", "ho"),
		},
	}
	require.Equal(t, "17  -  stdout  a bad day\n", h.run(t, "node", "logs", "web-1", "nexec_1", "--search", "bad").stdout)
	got := h.run(t, "node", "logs", "web-1", "nexec_1", "--since", "2026-01-02T03:04:05Z")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "hiho", got.stdout)
	require.Contains(t, got.stderr, "1 KiB of output are not there: disk_full")
	request, ok := h.last["ReadNodeLogRequest"].(*deckhandv1.ReadNodeLogRequest)
	require.True(t, ok)
	require.Equal(t, "2026-01-02T03:04:05Z", request.GetSince().AsTime().Format(time.RFC3339))

	h.execs.matches = nil
	require.Equal(t, 1, h.run(t, "node", "logs", "web-1", "nexec_1", "--search", "x").code)

	cast := h.run(t, "node", "logs", "web-1", "nexec_1", "--asciicast", "-")
	require.Equal(t, `{"version":3,"term":{"cols":100,"rows":24},"title":"nexec_1 on  by "}
[0,"o","hi"]
[1026,"o","ho"]
[0,"x","1"]
`, cast.stdout)
}

func TestLocksAndUsageAreShown(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	got := h.run(t, "node", "lock", "web-1", "--reason", "kernel update")
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stdout, "kernel update")
	require.Contains(t, got.stderr, "2 tasks are running there and continue")
	require.Equal(t, `WHERE      AGENT   CPU     MEMORY          PIDS      DISK
(machine)  -       150.0%  3 MiB           -         -
jail_1     triage  -       1 MiB of 4 MiB  3 of 512  -
`, h.run(t, "node", "top", "web-1").stdout)
	require.Contains(t, h.run(t, "node", "top", "web-1", "-o", "json").stdout, `"agentName": "triage"`)
	h.nodes = []*deckhandv1.Node{{
		Name: "web-1", Status: "connected", Drain: &deckhandv1.NodeDrain{By: "bob", Reason: "new disk"}, Lock: &deckhandv1.NodeLock{By: "alice", Reason: "kernel"},
	}}
	require.Contains(t, h.run(t, "node", "list").stdout, "locked by alice: kernel; drained by bob: new disk")
}

// What is typed goes there, what comes back is shown as it is, and the
// terminal is as it was before.
func TestAShell(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	master, tty, err := pty.Open()
	require.NoError(t, err)
	defer func() { _ = master.Close() }()
	require.NoError(t, pty.Setsize(tty, &pty.Winsize{Rows: 33, Cols: 99}))
	shown := make(chan string, 1)
	prompt := make(chan struct{})
	go func() {
		var all bytes.Buffer
		buf := make([]byte, 1024)
		for {
			n, err := master.Read(buf)
			before := strings.Contains(all.String(), "# ")
			all.Write(buf[:n])
			if !before && strings.Contains(all.String(), "# ") {
				close(prompt)
			}
			if err != nil {
				shown <- all.String()
				return
			}
		}
	}()
	go func() {
		<-prompt
		_, _ = io.WriteString(master, "ls\rexit\r")
	}()
	var stderr bytes.Buffer
	code := cli.Execute(t.Context(), []string{"node", "shell", "web-1", "--host", "--hub", h.url, "--token", testToken}, tty, tty, &stderr)
	require.Equal(t, 9, code, stderr.String())
	// The read that waits for a key ends with the program, or by one.
	_, err = io.WriteString(master, "\n")
	require.NoError(t, err)
	require.NoError(t, tty.Close())
	text := <-shown
	require.Contains(t, text, "\x1b[1;31mHOST:web-1\x1b[0m # ")
	require.Contains(t, text, "LS\rEXIT\r", "what is typed is not shown by this side: only what comes back")
	open, ok := h.last["Open"].(*deckhandv1.OpenTerminalRequest_Open)
	require.True(t, ok)
	require.EqualValues(t, 33, open.GetSize().GetRows())
	require.EqualValues(t, 99, open.GetSize().GetCols())
	require.True(t, open.GetHost())
}
