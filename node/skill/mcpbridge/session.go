package mcpbridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deckhand-sh/deckhand/internal/version"
	"github.com/deckhand-sh/deckhand/node/skill/keeper"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

const (
	// maxMessage bounds one message of a server's.
	maxMessage = 8 << 20
	// maxTools and maxList bound a list, and maxDefinition one tool's definition.
	maxTools      = 256
	maxList       = 2 << 20
	maxDefinition = 32 << 10
	// maxLeft is how many tools may be left out before the rest is ignored.
	maxLeft = 64
	// maxText bounds the text of a result, maxImage one of its pictures, and
	// maxImages how many there are.
	maxText   = 256 << 10
	maxImage  = 2 << 20
	maxImages = 4
	// toldTail is how much of what the server wrote to its standard error is said
	// of one that failed.
	toldTail = 1 << 10
	// fresh is how long a list of tools is taken for what the server offers.
	fresh = 30 * time.Second
	// endWait is how long a server may take to end once its input has.
	endWait = 2 * time.Second
	// settleWait is how long an end of the process and one of the conversation wait
	// for each other, to say why. Both mostly come at once, but a machine under
	// load may take its time between them.
	settleWait = 3 * time.Second
)

// session is a server's process and the conversation with it.
type session struct {
	command []string
	url     string // instead of command
	stderr  io.Writer
	said    *keeper.Tail

	ready chan struct{} // closed when it speaks, or will never
	over  chan struct{} // closed when it has ended
	once  sync.Once
	cmd   *exec.Cmd
	conn  *mcp.ClientSession
	input io.Closer
	way   *http.Transport // to the server elsewhere
	// watching are those who wait for its end.
	watching sync.WaitGroup

	mu  sync.Mutex
	err error // why it ended

	listing sync.Mutex
	tools   []Tool
	left    []string
	listed  time.Time
	changed atomic.Bool
}

func newSession(cfg Config, stderr io.Writer) *session {
	return &session{
		command: cfg.Command, url: cfg.URL, stderr: stderr, said: &keeper.Tail{Max: toldTail}, ready: make(chan struct{}), over: make(chan struct{}),
	}
}

// start begins the server's process and the conversation.
func (s *session) start(ctx context.Context) {
	defer close(s.ready)
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	begin := s.begin
	if s.url != "" {
		begin = s.reach
	}
	if err := begin(ctx); err != nil {
		s.end(fmt.Errorf("the server did not start: %w", err))
	}
}

func (s *session) begin(ctx context.Context) error {
	s.cmd = exec.Command(s.command[0], s.command[1:]...) //nolint:gosec,noctx // what the persona names, in the jail; it ends with close
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.cmd.Stderr = io.MultiWriter(s.stderr, s.said)
	s.cmd.WaitDelay = time.Second
	input, err := s.cmd.StdinPipe()
	if err != nil {
		return err
	}
	// A pipe of our own: the process's end does not cut off what it said.
	output, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	s.cmd.Stdout = theirs
	err = s.cmd.Start()
	_ = theirs.Close()
	if err != nil {
		s.cmd = nil
		_ = output.Close()
		return err
	}
	s.input = input
	gone, broke := make(chan struct{}), make(chan error, 1)
	s.watching.Go(func() {
		err := s.cmd.Wait()
		close(gone)
		why := errors.New("the server ended")
		if err != nil {
			why = fmt.Errorf("the server ended with %w", err)
		}
		// It may have been ended for what it wrote: that says more than how it
		// ended, which says more than that its pipes are closed.
		select {
		case err := <-broke:
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) && !errors.Is(err, syscall.EPIPE) {
				why = brokenOff(err)
			}
		case <-time.After(settleWait):
		}
		s.end(why)
	})
	conn, err := s.client().Connect(ctx, &mcp.IOTransport{Reader: output, Writer: input, MaxLineLength: maxMessage}, nil)
	if err != nil {
		// A server that ended before it spoke has reported why; its end has the
		// reason.
		select {
		case <-gone:
		case <-ctx.Done():
		case <-time.After(settleWait):
		}
		return err
	}
	s.conn = conn
	s.watching.Go(func() {
		err := conn.Wait()
		broke <- err
		select {
		case <-gone:
		case <-time.After(settleWait):
			s.end(brokenOff(cmp.Or(err, io.EOF)))
		}
	})
	return nil
}

func (s *session) client() *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "deckhand", Version: version.Version}, &mcp.ClientOptions{
		Capabilities:           &mcp.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { s.changed.Store(true) },
	})
}

func brokenOff(err error) error {
	return fmt.Errorf("the conversation with the server broke off: %w", err)
}

// end records why the server cannot be used any more; the first reason is kept.
func (s *session) end(err error) {
	s.once.Do(func() {
		if said := strings.TrimSpace(clean(s.said.String())); said != "" {
			err = fmt.Errorf("%w; it wrote: %s", err, said)
		}
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		close(s.over)
	})
}

// failure returns why the server ended, or nil where it has not.
func (s *session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// spoke reports whether the server got as far as to speak.
func (s *session) spoke() bool {
	select {
	case <-s.ready:
		return s.conn != nil
	default:
		return false
	}
}

// close ends the server and all that it started.
func (s *session) close() {
	<-s.ready
	if s.way != nil {
		s.leave()
	}
	if s.input == nil {
		return
	}
	_ = s.input.Close()
	select {
	case <-s.over:
	case <-time.After(endWait):
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.watching.Wait()
}

// await returns nil when the server can be asked.
func (s *session) await(ctx context.Context) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.failure()
}

// list returns the server's tools.
func (s *session) list(ctx context.Context) Answer {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	if err := s.await(ctx); err != nil {
		return Answer{Error: err.Error()}
	}
	tools, left, err := s.offered(ctx, true)
	if err != nil {
		return s.failed(ctx, err)
	}
	return Answer{Tools: tools, Left: left}
}

// offered returns the server's tools. It uses a cached list unless the cache
// has expired or the server announced a change, or if anew is set.
func (s *session) offered(ctx context.Context, anew bool) (tools []Tool, left []string, err error) {
	s.listing.Lock()
	defer s.listing.Unlock()
	if !anew && !s.changed.Load() && time.Since(s.listed) < fresh {
		return s.tools, s.left, nil
	}
	s.changed.Store(false)
	names, size := map[string]bool{}, 0
	for t, err := range s.conn.Tools(ctx, nil) {
		if err != nil {
			return nil, nil, err
		}
		if len(left) == maxLeft {
			break
		}
		schema, err := json.Marshal(t.InputSchema)
		one := Tool{Name: t.Name, Description: clean(t.Description), InputSchema: schema}
		switch {
		case err != nil, one.Name == "", len(one.Name) > 128:
			left = append(left, fmt.Sprintf("%.128q: it cannot be read", t.Name))
		case names[one.Name]:
			left = append(left, fmt.Sprintf("%q: it is there twice", one.Name))
		case len(one.Description)+len(schema) > maxDefinition:
			left = append(left, fmt.Sprintf("%q: its definition has %d bytes, and at most %d are taken", one.Name, len(one.Description)+len(schema), maxDefinition))
		case len(tools) == maxTools, size+len(one.Description)+len(schema) > maxList:
			left = append(left, fmt.Sprintf("%q: at most %d tools, with definitions of %d bytes together, are taken", one.Name, maxTools, maxList))
		default:
			names[one.Name] = true
			size += len(one.Description) + len(schema)
			one.Digest = one.digest()
			tools = append(tools, one)
		}
	}
	s.tools, s.left, s.listed = tools, left, time.Now()
	return tools, left, nil
}

// call calls a tool if it still is what was agreed on.
func (s *session) call(ctx context.Context, req Request) Answer {
	if req.TimeoutMillis > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(req.TimeoutMillis)*time.Millisecond)
		defer cancel()
	}
	if err := s.await(ctx); err != nil {
		return Answer{Error: err.Error()}
	}
	tools, _, err := s.offered(ctx, false)
	if err != nil {
		return s.failed(ctx, err)
	}
	var tool *Tool
	for i := range tools {
		if tools[i].Name == req.Tool {
			tool = &tools[i]
		}
	}
	switch {
	case tool == nil:
		return Answer{Gone: true, Error: "the server does not offer it any more"}
	case tool.Digest != req.Digest:
		return Answer{Tools: []Tool{*tool}, Error: "its definition is not the one that was agreed on"}
	}
	result, err := s.conn.CallTool(ctx, &mcp.CallToolParams{Name: req.Tool, Arguments: req.Arguments})
	if err != nil {
		return s.failed(ctx, err)
	}
	return answerOf(result)
}

// undelivered is the SDK's code for a request that got no HTTP response.
const undelivered = -32005

// failed returns what an error of the conversation means.
func (s *session) failed(ctx context.Context, err error) Answer {
	var refused *jsonrpc.Error
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Answer{TimedOut: true, Error: "no answer in time"}
	case ctx.Err() != nil:
		return Answer{Error: "cancelled"}
	case errors.As(err, &refused) && refused.Code != undelivered:
		return Answer{Error: clean(refused.Message)}
	}
	if s.way != nil {
		// There is no process whose end would say more.
		s.end(brokenOff(err))
	}
	// If the server has ended, its end explains the failure.
	select {
	case <-s.over:
	case <-time.After(5 * time.Second):
		s.end(brokenOff(err))
	}
	return Answer{Ended: true, Error: clean(s.failure().Error())}
}

// answerOf returns a result as it is passed on.
func answerOf(result *mcp.CallToolResult) Answer {
	said := Answer{IsError: result.IsError}
	var texts []string
	for _, content := range result.Content {
		switch c := content.(type) {
		case *mcp.TextContent:
			texts = append(texts, c.Text)
		case *mcp.ImageContent:
			if !said.show(c) {
				texts = append(texts, fmt.Sprintf("[an image, %.64s, %d bytes, is not shown]", c.MIMEType, len(c.Data)))
			}
		case *mcp.AudioContent:
			texts = append(texts, fmt.Sprintf("[sound, %.64s, %d bytes, is not shown]", c.MIMEType, len(c.Data)))
		case *mcp.ResourceLink:
			texts = append(texts, fmt.Sprintf("[%s: %s]", c.Name, c.URI))
		case *mcp.EmbeddedResource:
			switch {
			case c.Resource == nil:
			case c.Resource.Text != "":
				texts = append(texts, c.Resource.URI+":\n"+c.Resource.Text)
			default:
				texts = append(texts, fmt.Sprintf("[%s: %d bytes of %s are not shown]", c.Resource.URI, len(c.Resource.Blob), c.Resource.MIMEType))
			}
		}
	}
	said.Text = clean(strings.Join(texts, "\n"))
	if said.Text == "" && result.StructuredContent != nil {
		if data, err := json.Marshal(result.StructuredContent); err == nil {
			said.Text = clean(string(data))
		}
	}
	if n := len(said.Text); n > maxText {
		said.Text = strings.ToValidUTF8(said.Text[:maxText], "") + fmt.Sprintf("\n[... %d of %d bytes left out ...]", n-maxText, n)
	}
	return said
}

// show takes an image along where a model may be shown it.
func (a *Answer) show(c *mcp.ImageContent) bool {
	switch c.MIMEType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return false
	}
	if len(a.Images) == maxImages || len(c.Data) > maxImage || len(c.Data) == 0 {
		return false
	}
	a.Images = append(a.Images, report.NewImage(c.MIMEType, c.Data))
	return true
}

// clean returns text that can be stored.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
