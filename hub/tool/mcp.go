package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/persona"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The tools of MCP servers. A server is a process in the task's jail, run by
// `deckhand-skill mcp serve`, which is a command on the node; each call is another
// command, `deckhand-skill mcp ask`, under the step's id. So a call is made at most once,
// whichever process dies, and what a server sends is parsed in the jail.

const (
	// mcpSockets is where servers are asked, in the jail.
	mcpSockets = "/tmp/.deckhand-mcp"
	// mcpLife bounds a server's life, and mcpIdle how long it lives unasked.
	mcpLife = 24 * time.Hour
	mcpIdle = 15 * time.Minute
	// mcpListTimeout limits a list, including the server's start, and mcpSlack what a
	// call may take in addition to its own timeout.
	mcpListTimeout = 75 * time.Second
	mcpSlack       = 45 * time.Second
	// maxMCPAnswer is more than deckhand-skill returns.
	maxMCPAnswer = 13 << 20
	// maxMCPRequest is what a node takes as a command's input.
	maxMCPRequest = 1 << 20
	// maxToolName is what all providers take.
	maxToolName = 64
)

// MCP is what a call of an MCP server's tool needs.
type MCP struct {
	Server *persona.MCPServer
	TaskID string
	// Tool is the server's name for it, and Digest that of the accepted definition.
	Tool, Digest string
	// Changed is called with a definition that differs; nil for a tool that the server no
	// longer offers.
	Changed func(ctx context.Context, now *Definition) error
}

// Definition is a tool as its MCP server offers it.
type Definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	// Digest identifies a definition.
	Digest string `json:"digest"`
}

// IsMCP reports whether a tool of that name is one of an MCP server's.
func IsMCP(name string) bool { return strings.HasPrefix(name, persona.MCPPrefix) }

// MCPName is how the model calls a tool of a server: mcp__server__tool, of the
// characters that all providers take, and no longer than they take.
func MCPName(server, tool string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, tool)
	name := persona.MCPPrefix + server + "__" + plain
	if plain == tool && len(name) <= maxToolName {
		return name
	}
	// A changed name is distinguished from others by a part of its digest.
	sum := sha256.Sum256([]byte(tool))
	mark := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxToolName-len(mark))] + mark
}

// Proto returns the record of a tool of an MCP server's.
func (d Definition) Proto(s *persona.MCPServer) (*deckhandv1.Tool, error) {
	schema := &structpb.Struct{}
	if err := json.Unmarshal(d.InputSchema, schema); err != nil {
		return nil, fault.New(fault.Invalid, "the schema of tool %s of MCP server %s is no JSON object", d.Name, s.Name)
	}
	record := mcpTool(MCPName(s.Name, d.Name))
	record.Category, record.Description, record.Timeout = CategoryOf(s.Category), d.Description, s.Timeout
	return record.proto(schema), nil
}

// mcpTool returns the record that all of them share. What a server declares about its
// tools, that they only read or may be repeated, is not trusted.
func mcpTool(name string) *Tool {
	return &Tool{
		Name: name, Kind: KindWork, Returns: Foreign, Expected: 5 * time.Second, Category: deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE, Place: deckhandv1.ToolPlace_TOOL_PLACE_NODE,
		Irreversible: "effects of the MCP server outside /workspace", Timeout: shellMaxTimeout, runs: true, run: runMCP,
	}
}

// mcpAnswer is what deckhand-skill writes; see node/skill/mcpbridge.
type mcpAnswer struct {
	NotRunning bool         `json:"not_running"`
	Tools      []Definition `json:"tools"`
	Gone       bool         `json:"gone"`
	Left       []string     `json:"left"`
	Text       string       `json:"text"`
	Images     sentPictures `json:"images"`
	IsError    bool         `json:"is_error"`
	Error      string       `json:"error"`
	Ended      bool         `json:"ended"`
	TimedOut   bool         `json:"timed_out"`
}

// mcpKeeper begins the names of the commands that keep a task's servers.
func mcpKeeper(taskID string) string { return "mcp_" + strings.TrimPrefix(taskID, "task_") + "_" }

func mcpSocket(m *MCP) string { return path.Join(mcpSockets, m.TaskID+"-"+m.Server.Name) }

// keepMCP makes sure that a server is kept, unless the call itself is in progress.
func keepMCP(ctx context.Context, c Call) error {
	res, err := c.Node.Exec().ListExecs(ctx, &nodev1.ListExecsRequest{JailId: c.Jail.GetJailId(), LiveOnly: true})
	if err != nil {
		return err
	}
	keeper := mcpKeeper(c.MCP.TaskID) + c.MCP.Server.Name + "_"
	for _, e := range res.GetExecs() {
		if strings.HasPrefix(e.GetExecId(), keeper) && !e.GetLeaderExited() || e.GetExecId() == c.ExecID {
			return nil
		}
	}
	cfg, err := json.Marshal(map[string]any{
		"socket": mcpSocket(c.MCP), "command": c.MCP.Server.Command, "url": c.MCP.Server.URL, "idle_seconds": int(mcpIdle.Seconds()),
	})
	if err != nil {
		return fmt.Errorf("encode how MCP server %s is kept: %w", c.MCP.Server.Name, err)
	}
	spec := &nodev1.ExecSpec{
		ExecId: keeper + strings.TrimPrefix(ident.New("x"), "x_")[:8], JailId: c.Jail.GetJailId(), Timeout: durationpb.New(mcpLife),
		Argv: []string{nodelink.SkillPath, "mcp", "serve", string(cfg)}, Env: c.MCP.Server.Env,
	}
	if c.OfflineGrace > 0 {
		spec.OfflineGrace = durationpb.New(c.OfflineGrace)
	}
	spec.OutputLimitBytes = c.OutputLimit
	return inJail(ctx, c, func() error {
		_, err := c.Node.Exec().StartExec(ctx, &nodev1.StartExecRequest{Spec: spec})
		return err
	})
}

// EndMCP ends the MCP servers of a task.
func EndMCP(ctx context.Context, node machine.Link, jailID, taskID string) error {
	return endKeepers(ctx, node, jailID, mcpKeeper(taskID))
}

// endKeepers ends the commands whose names begin with a text.
func endKeepers(ctx context.Context, node machine.Link, jailID, names string) error {
	res, err := node.Exec().ListExecs(ctx, &nodev1.ListExecsRequest{JailId: jailID, LiveOnly: true})
	if err != nil {
		return fault.FromGRPC(err)
	}
	for _, e := range res.GetExecs() {
		if !strings.HasPrefix(e.GetExecId(), names) {
			continue
		}
		if _, err := node.Exec().KillExec(ctx, &nodev1.KillExecRequest{ExecId: e.GetExecId(), By: "hub: its task has ended"}); err != nil {
			return fault.FromGRPC(err)
		}
	}
	return nil
}

// askMCP makes a request, or re-attaches to it. If deckhand-skill returned no result, the
// answer is nil and the exec says why.
func askMCP(ctx context.Context, c Call, request map[string]any, timeout time.Duration, snapshot bool) (*mcpAnswer, *nodev1.Exec, error) {
	input, err := json.Marshal(request)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a request to MCP server %s: %w", c.MCP.Server.Name, err)
	}
	if len(input) > maxMCPRequest {
		return nil, nil, fault.New(fault.Invalid, "the arguments have %d bytes, and an MCP server is given at most %d", len(input), maxMCPRequest).
			WithCode(fault.InvalidParameters).WithFix("write them to a file of the workspace and name that")
	}
	if err := keepMCP(ctx, c); err != nil {
		return nil, nil, err
	}
	exec, err := execute(ctx, c, &nodev1.ExecSpec{
		ExecId: c.ExecID, JailId: c.Jail.GetJailId(), Timeout: durationpb.New(timeout + mcpSlack), Stdin: input, Snapshot: snapshot,
		Argv: []string{nodelink.SkillPath, "mcp", "ask", mcpSocket(c.MCP)},
	})
	if err != nil || exec.GetEndReason() != nodev1.EndReason_END_REASON_EXITED || exec.GetLogBytes() > maxMCPAnswer {
		return nil, exec, err
	}
	output, err := readLog(ctx, c, c.ExecID, 0, exec.GetLogBytes())
	if err != nil {
		return nil, exec, err
	}
	said := &mcpAnswer{}
	if json.Unmarshal([]byte(output), said) != nil {
		return nil, exec, nil
	}
	return said, exec, nil
}

// ListMCP returns the tools that a server offers, in its order, and which were
// left out, and why. An error of kind Unavailable is one of the way to the node;
// any other is the server's.
func ListMCP(ctx context.Context, c Call) ([]Definition, []string, error) {
	ctx, cancel := context.WithTimeout(ctx, mcpListTimeout)
	defer cancel()
	for run := 1; ; run++ {
		c.ExecID = "mcplist_" + strings.TrimPrefix(ident.New("x"), "x_")
		said, exec, err := askMCP(ctx, c, map[string]any{"list": true}, mcpListTimeout, false)
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, nil, fault.New(fault.Precondition, "it did not answer within %s", mcpListTimeout)
		case err != nil:
			return nil, nil, fault.FromGRPC(err)
		case said == nil:
			status, _ := describe(exec)
			return nil, nil, fault.New(fault.Precondition, "it could not be asked: %s", status)
		case said.NotRunning && run < 3:
			continue // it had just ended
		case said.NotRunning:
			return nil, nil, fault.New(fault.Precondition, "it ends as soon as it is started")
		case said.Error != "":
			return nil, nil, fault.New(fault.Precondition, "%.2000s", said.Error)
		}
		return said.Tools, said.Left, nil
	}
}

func runMCP(ctx context.Context, c Call) (Result, error) {
	m := c.MCP
	if m == nil {
		return Result{Failed: true, Code: fault.ToolNotFound, Observation: fmt.Sprintf("error %s: the persona has no such MCP server", fault.ToolNotFound)}, nil
	}
	said, exec, err := askMCP(ctx, c, map[string]any{
		"tool": m.Tool, "digest": m.Digest, "arguments": c.Arguments, "timeout_ms": m.Server.Timeout.Milliseconds(),
	}, m.Server.Timeout, true)
	if err != nil {
		return failure(err)
	}
	if said == nil {
		// The command did not end normally: its result says why.
		result, err := shellResult(ctx, c, exec)
		if err == nil && !result.Failed {
			result.Failed, result.Code = true, fault.ToolFailed
		}
		return result, err
	}
	result := Result{
		LogBytes: exec.GetLogBytes(), Workspace: exec.GetWorkspace(),
		Outcome: map[string]any{"server": m.Server.Name, "tool": m.Tool, "answer_bytes": len(said.Text), "images": len(said.Images)},
	}
	fail := func(code fault.Code, format string, args ...any) (Result, error) {
		result.Failed, result.Code = true, code
		result.Observation = fmt.Sprintf("error %s: ", code) + fmt.Sprintf(format, args...)
		return result, nil
	}
	switch {
	case said.NotRunning:
		result.NotStarted = true
		return fail(fault.ToolFailed, "the MCP server %s ends as soon as it is started; the call was not made", m.Server.Name)
	case said.Gone:
		if err := m.Changed(ctx, nil); err != nil {
			return Result{}, err
		}
		return fail(fault.ToolNotFound, "the MCP server %s does not offer the tool %s any more; the call was not made", m.Server.Name, m.Tool)
	case said.Error != "" && len(said.Tools) == 1:
		if err := m.Changed(ctx, &said.Tools[0]); err != nil {
			return Result{}, err
		}
		return fail(fault.PermissionDenied, "the MCP server %s has changed what the tool %s is since it was agreed on; the call was not made. "+
			"Call it again to have a person asked, or go on without it", m.Server.Name, m.Tool)
	case said.TimedOut:
		return fail(fault.ExecutionTimeout, "the MCP server %s did not answer within %s; it may have done what was asked all the same", m.Server.Name, m.Server.Timeout)
	case said.Ended:
		return fail(fault.ToolFailed, "the MCP server %s ended before it answered, and may have done what was asked all the same: %s", m.Server.Name, said.Error)
	case said.Error != "":
		return fail(fault.ToolFailed, "the MCP server %s: %s", m.Server.Name, said.Error)
	}
	var lost int
	result.Images, lost = said.Images.whole()
	said.Text += lostPictures(lost)
	if said.IsError {
		return fail(fault.ToolFailed, "%s", said.Text)
	}
	if result.Observation = said.Text; result.Observation == "" {
		result.Observation = "(no text)"
	}
	return result, nil
}
