// Package mcpbridge runs one MCP server of an agent inside its jail, as part of
// deckhand-skill. `deckhand-skill mcp serve` owns the server's process and
// speaks MCP with it over standard input and output, or over HTTP with a remote
// one. `deckhand-skill mcp ask` passes one request to it over a Unix socket.
// The server therefore lives as long as the task, each call is its own command
// in the node's ledger, and a server's messages are parsed only inside the
// jail.
//
// If the server dies, or writes an invalid or too long message, the bridge ends
// with it: pending callers get an error, and the next call starts a new server.
// A bridge that is idle for a while exits. If a caller goes away, its call is
// cancelled.
package mcpbridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/node/skill/keeper"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

const (
	// lockWait is how long a bridge waits for the one before it to be gone.
	lockWait = 10 * time.Second
	// startWait is how long a server may take until it speaks.
	startWait = 30 * time.Second
	// lingerFor is how long a bridge whose server did not start stays to say so.
	lingerFor = 3 * time.Second
	// maxRequest and maxAnswer bound what goes over the socket.
	maxRequest = 2 << 20
	maxAnswer  = 12 << 20
)

// Config says which server a bridge runs.
type Config struct {
	// Socket is where it is asked, and Command the server; or URL, for one that is
	// spoken with over HTTP.
	Socket  string   `json:"socket"`
	Command []string `json:"command"`
	URL     string   `json:"url"`
	// IdleSeconds is how long it lives without being asked.
	IdleSeconds int `json:"idle_seconds"`
}

// Request is what a bridge is asked.
type Request struct {
	// List asks for the tools; otherwise Tool is called.
	List bool   `json:"list,omitempty"`
	Tool string `json:"tool,omitempty"`
	// Digest is that of the tool's definition as it was agreed on.
	Digest    string          `json:"digest,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// TimeoutMillis bounds the call.
	TimeoutMillis int64 `json:"timeout_ms,omitempty"`
}

// Answer is the result of a request.
type Answer struct {
	// NotRunning reports that no bridge was running.
	NotRunning bool `json:"not_running,omitempty"`
	// Tools are those of the server, for a list; or, alone, the one that was to
	// be called as it is now, since its definition is not the one that was agreed
	// on. Then, and where it is Gone, it was not called.
	Tools []Tool `json:"tools,omitempty"`
	Gone  bool   `json:"gone,omitempty"`
	// Left says which tools were left out of a list, and why.
	Left []string `json:"left,omitempty"`
	Text string   `json:"text,omitempty"`
	// Images are those of the result.
	Images []report.Image `json:"images,omitempty"`
	// IsError says that the tool itself failed; Error that there is no result,
	// and why. With Ended the server is gone, and may have done what was asked;
	// with TimedOut it may still.
	IsError  bool   `json:"is_error,omitempty"`
	Error    string `json:"error,omitempty"`
	Ended    bool   `json:"ended,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
}

// Tool is a tool as its server offers it.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	// Digest is that of all three.
	Digest string `json:"digest"`
}

// Main runs `mcp serve CONFIG`, or `mcp ask SOCKET`, which reads the request
// from standard input, and returns the exit status.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var err error
	switch {
	case len(args) == 2 && args[0] == "serve":
		var cfg Config
		if err = json.Unmarshal([]byte(args[1]), &cfg); err == nil {
			err = Serve(ctx, cfg, stderr)
		}
	case len(args) == 2 && args[0] == "ask":
		err = ask(ctx, args[1], stdin, stdout)
	default:
		fmt.Fprintln(stderr, "usage: deckhand-skill mcp serve CONFIG | mcp ask SOCKET")
		return 2
	}
	if err != nil {
		fmt.Fprintln(stderr, "deckhand-skill:", err)
		return 1
	}
	return 0
}

// Serve runs a server until it ends, or has been idle for too long.
func Serve(ctx context.Context, cfg Config, stderr io.Writer) error {
	if cfg.Socket == "" || (len(cfg.Command) == 0) == (cfg.URL == "") || cfg.IdleSeconds <= 0 {
		return errors.New("socket, command or url, and idle_seconds must be given")
	}
	if err := os.MkdirAll(filepath.Dir(cfg.Socket), 0o700); err != nil {
		return err
	}
	unlock, err := keeper.Lock(ctx, cfg.Socket+".lock", lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(cfg.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "unix", cfg.Socket)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bridge{session: newSession(cfg, stderr), idle: keeper.NewIdle(time.Duration(cfg.IdleSeconds) * time.Second)}
	defer b.session.close()
	go b.session.start(ctx)
	go b.watch(ctx, func() { _ = listener.Close() })
	for {
		conn, err := listener.Accept()
		if err != nil {
			// Closing removed the socket, so that no further call arrives.
			b.asking.Wait()
			return b.session.failure()
		}
		b.asking.Go(func() { b.answer(ctx, conn) })
	}
}

// bridge is one server and those who ask it.
type bridge struct {
	session *session
	idle    *keeper.Idle
	asking  sync.WaitGroup
}

// watch calls stop when the server has ended or has been idle for too long.
func (b *bridge) watch(ctx context.Context, stop func()) {
	defer stop()
	b.idle.Wait(ctx, b.session.over)
	select {
	case <-b.session.over:
	default:
		return
	}
	if !b.session.spoke() {
		// The caller that started it is about to send its request.
		select {
		case <-ctx.Done():
		case <-time.After(lingerFor):
		}
	}
}

// answer reads one request and replies to it.
func (b *bridge) answer(ctx context.Context, conn net.Conn) {
	defer b.idle.Call()()
	defer func() { _ = conn.Close() }()
	var req Request
	if err := json.NewDecoder(io.LimitReader(conn, maxRequest)).Decode(&req); err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		// It says nothing more: an end of it is that of the one who asked.
		_, _ = conn.Read(make([]byte, 1))
		cancel()
	}()
	var said Answer
	if req.List {
		said = b.session.list(ctx)
	} else {
		said = b.session.call(ctx, req)
	}
	// The caller may be gone.
	_ = json.NewEncoder(conn).Encode(said)
}

// connectWait is how long one who asks waits for a bridge to come.
const connectWait = 5 * time.Second

// ask passes a request to the bridge and writes its answer.
func ask(ctx context.Context, socket string, stdin io.Reader, stdout io.Writer) error {
	request, err := io.ReadAll(io.LimitReader(stdin, maxRequest))
	if err != nil {
		return err
	}
	said := Answer{NotRunning: true}
	if conn := keeper.Connect(ctx, socket, connectWait); conn != nil {
		defer func() { _ = conn.Close() }()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		said = Answer{}
		_, err := conn.Write(append(request, '\n'))
		if err == nil {
			err = json.NewDecoder(io.LimitReader(conn, maxAnswer)).Decode(&said)
		}
		if err != nil {
			said = Answer{Ended: true, Error: "the server's keeper ended before it answered"}
		}
	}
	return json.NewEncoder(stdout).Encode(said)
}

// digest identifies a definition.
func (t Tool) digest() string {
	h := sha256.New()
	for _, part := range []string{t.Name, t.Description, string(t.InputSchema)} {
		fmt.Fprintf(h, "%d\n%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}
