package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/nodeexec"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// NodeExecs serves NodeExecService.
type NodeExecs struct {
	Nodes  *node.Nodes
	Agents *agent.Service
	Tasks  *task.Service
	Execs  *nodeexec.Execs
	// Node returns the live link to a node.
	Node func(nodeID string) (machine.Link, error)
}

// place is where a command is to run: in the jail of an agent or of a task, or
// with neither on the machine itself.
type place interface {
	GetNodeId() string
	GetAgentId() string
	GetTaskId() string
	GetReason() string
}

// request begins a command of the caller's.
func (h *NodeExecs) request(ctx context.Context, at place) (nodeexec.Request, error) {
	id := auth.From(ctx)
	nodeRef, agentRef, taskRef := at.GetNodeId(), at.GetAgentId(), at.GetTaskId()
	r := nodeexec.Request{
		OrgID: id.OrgID, By: userOf(id), Role: id.Role, Reason: at.GetReason(), Host: agentRef == "" && taskRef == "",
	}
	nodeID, err := h.Nodes.Find(ctx, id.OrgID, nodeRef)
	if err != nil {
		return r, err
	}
	row, err := h.Nodes.Get(ctx, id.OrgID, nodeID)
	if err != nil {
		return r, err
	}
	r.Node = row.Node
	switch {
	case agentRef != "":
		if r.AgentID, err = h.Agents.Find(ctx, viewer(ctx), agentRef); err != nil {
			return r, err
		}
		row, gerr := h.Agents.Get(ctx, id.OrgID, r.AgentID)
		if err = gerr; err == nil {
			err = h.Agents.OwnsWorkspace(ctx, viewer(ctx), row)
		}
	case taskRef != "":
		var taskID string
		if taskID, err = h.Tasks.Find(ctx, viewer(ctx), taskRef); err != nil {
			return r, err
		}
		t, terr := h.Tasks.Get(ctx, id.OrgID, taskID)
		if err = terr; err == nil {
			err = mayAccess(ctx, h.Agents, t.Task, toWrite)
		}
		r.Task, r.AgentID = &t.Task, t.Task.AgentID
	}
	return r, err
}

// StartNodeExec stores a command and has it started.
func (h *NodeExecs) StartNodeExec(ctx context.Context, req *deckhandv1.StartNodeExecRequest) (*deckhandv1.StartNodeExecResponse, error) {
	r, err := h.request(ctx, req)
	if err != nil {
		return nil, err
	}
	r.Argv, r.Env, r.Dir, r.Stdin = req.GetArgv(), req.GetEnv(), req.GetDir(), req.GetStdin()
	r.Timeout = req.GetTimeout().AsDuration()
	row, err := h.Execs.Submit(ctx, r)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.StartNodeExecResponse{Exec: execMessage(row)}, nil
}

// GetNodeExec returns a command, at once or when it has ended.
func (h *NodeExecs) GetNodeExec(ctx context.Context, req *deckhandv1.GetNodeExecRequest) (*deckhandv1.GetNodeExecResponse, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Execs.Find(ctx, viewer(ctx), req.GetExecId())
	if err != nil {
		return nil, err
	}
	row, err := h.Execs.Wait(ctx, org, id, req.GetWait().AsDuration())
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetNodeExecResponse{Exec: execMessage(row)}, nil
}

const execsPage = 50

// ListNodeExecs returns people's commands, newest first, a page at a time.
func (h *NodeExecs) ListNodeExecs(ctx context.Context, req *deckhandv1.ListNodeExecsRequest) (*deckhandv1.ListNodeExecsResponse, error) {
	ctx, total := withTotal(ctx, req)
	org, nodeID := auth.From(ctx).OrgID, ""
	if ref := req.GetNodeId(); ref != "" {
		id, err := h.Nodes.Find(ctx, org, ref)
		if err != nil {
			return nil, err
		}
		nodeID = id
	}
	rows, next, err := h.Execs.List(ctx, viewer(ctx), nodeID, req.GetLiveOnly(), req.GetPageToken(), cmp.Or(req.GetPageSize(), execsPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListNodeExecsResponse{NextPageToken: next}
	for _, row := range rows {
		res.Execs = append(res.Execs, execMessage(db.GetNodeExecRow(row)))
	}
	res.Total, err = totalMessage(total, len(rows), res.GetNextPageToken())
	return res, err
}

// seen refuses a command in the jail of an agent that the caller does not see.
func (h *NodeExecs) seen(ctx context.Context, e db.NodeExec) error {
	v := viewer(ctx)
	if e.AgentID == nil || e.UserName == v.Name {
		return nil
	}
	_, err := h.Agents.FindPast(ctx, v, *e.AgentID)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "there is no %s %q", nodeexec.Kind, e.ID).WithObject(e.ID)
	}
	return err
}

// KillNodeExec ends a command with its whole tree.
func (h *NodeExecs) KillNodeExec(ctx context.Context, req *deckhandv1.KillNodeExecRequest) (*deckhandv1.KillNodeExecResponse, error) {
	id := auth.From(ctx)
	execID, err := h.Execs.Find(ctx, task.Viewer{OrgID: id.OrgID, All: true}, req.GetExecId())
	if err != nil {
		return nil, err
	}
	row, err := h.Execs.Get(ctx, id.OrgID, execID)
	if err != nil {
		return nil, err
	}
	if err := h.seen(ctx, row.NodeExec); err != nil {
		return nil, err
	}
	if err := onHost(id, execID, row.NodeExec.Target == nodeexec.Host); err != nil {
		return nil, err
	}
	if row, err = h.Execs.Kill(ctx, id.OrgID, execID, userOf(id), ""); err != nil {
		return nil, err
	}
	return &deckhandv1.KillNodeExecResponse{Exec: execMessage(row)}, nil
}

// onHost refuses calls about the machine itself to everybody but administrators.
func onHost(id auth.Identity, execID string, host bool) error {
	if !host || id.Role == auth.Admin {
		return nil
	}
	return fault.New(fault.Denied, "%s ran on the machine itself, which is for administrators, and you have the role %s", execID, id.Role).
		WithCode(fault.PermissionDenied).WithFix("ask an administrator").WithObject(execID)
}

// source returns where a log is, and the link to its node.
func (h *NodeExecs) source(ctx context.Context, ref, nodeRef string) (nodeexec.Source, machine.Link, error) {
	id := auth.From(ctx)
	src, err := h.Execs.Source(ctx, viewer(ctx), ref)
	if err != nil {
		return src, nil, err
	}
	if nodeRef != "" {
		nodeID, err := h.Nodes.Find(ctx, id.OrgID, nodeRef)
		if err != nil {
			return src, nil, err
		}
		if nodeID != src.NodeID {
			return src, nil, fault.New(fault.NotFound, "%s did not run on node %s but on %s", src.ExecID, nodeRef, src.NodeID).
				WithObject(src.ExecID).WithFix("name that node")
		}
	}
	if err := onHost(id, src.ExecID, src.Host); err != nil {
		return src, nil, err
	}
	link, err := h.Node(src.NodeID)
	return src, link, err
}

// ReadNodeLog streams what a command or a step wrote.
func (h *NodeExecs) ReadNodeLog(ctx context.Context, req *deckhandv1.ReadNodeLogRequest, out *connect.ServerStream[deckhandv1.ReadNodeLogResponse]) error {
	src, link, err := h.source(ctx, req.GetExecId(), req.GetNodeId())
	if err != nil {
		return err
	}
	if src.Size != nil {
		out.ResponseHeader().Set(LogSizeHeader, strconv.FormatInt(*src.Size, 10))
	}
	in, err := link.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{
		ExecId: src.ExecID, Offset: req.GetOffset(), Follow: req.GetFollow(), Since: req.GetSince(),
		TailLines: req.GetTailLines(), TailBytes: req.GetTailBytes(), Limit: req.GetLimit(),
	})
	if err != nil {
		return fault.FromGRPC(err)
	}
	for {
		piece, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.FromGRPC(err)
		}
		if err := out.Send(logMessage(piece)); err != nil {
			return err
		}
	}
}

func logMessage(piece *nodev1.ReadLogResponse) *deckhandv1.ReadNodeLogResponse {
	m := &deckhandv1.ReadNodeLogResponse{
		Offset: piece.GetOffset(), Stream: streamName(piece.GetStream()), Data: piece.GetData(), Time: piece.GetTime(),
	}
	if gap := piece.GetGap(); gap != nil {
		m.GapTo, m.GapReason = gap.GetTo(), strings.ToLower(strings.TrimPrefix(gap.GetReason().String(), "GAP_REASON_"))
	}
	if size := piece.GetResize(); size != nil {
		m.Resize = &deckhandv1.TerminalSize{Rows: size.GetRows(), Cols: size.GetCols()}
	}
	return m
}

func streamName(s nodev1.LogStream) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "LOG_STREAM_"))
}

// SearchNodeLog finds a text or an expression in a log.
func (h *NodeExecs) SearchNodeLog(ctx context.Context, req *deckhandv1.SearchNodeLogRequest) (*deckhandv1.SearchNodeLogResponse, error) {
	src, link, err := h.source(ctx, req.GetExecId(), req.GetNodeId())
	if err != nil {
		return nil, err
	}
	found, err := link.Exec().SearchLog(ctx, &nodev1.SearchLogRequest{
		ExecId: src.ExecID, Pattern: req.GetPattern(), Regexp: req.GetRegexp(), IgnoreCase: req.GetIgnoreCase(),
		Offset: req.GetOffset(), MaxMatches: req.GetMaxMatches(), ContextLines: req.GetContextLines(),
		Caller: auth.From(ctx).UserID, End: req.GetEnd(), Backwards: req.GetBackwards(),
		MaxTime: req.GetMaxTime(),
	})
	if err != nil {
		return nil, fault.FromGRPC(err)
	}
	res := &deckhandv1.SearchNodeLogResponse{NextOffset: found.GetNextOffset(), Complete: found.GetComplete()}
	for _, m := range found.GetMatches() {
		res.Matches = append(res.Matches, &deckhandv1.NodeLogMatch{
			Offset: m.GetOffset(), Length: m.GetLength(), Stream: streamName(m.GetStream()), Time: m.GetTime(),
			Excerpt: m.GetExcerpt(), ExcerptOffset: m.GetExcerptOffset(),
		})
	}
	return res, nil
}

// IndexNodeLog counts the rows and lines of a log.
func (h *NodeExecs) IndexNodeLog(ctx context.Context, req *deckhandv1.IndexNodeLogRequest) (*deckhandv1.IndexNodeLogResponse, error) {
	src, link, err := h.source(ctx, req.GetExecId(), req.GetNodeId())
	if err != nil {
		return nil, err
	}
	found, err := link.Exec().IndexLog(ctx, &nodev1.IndexLogRequest{
		ExecId: src.ExecID, Offset: req.GetOffset(), RowBytes: req.GetRowBytes(), Stride: req.GetStride(),
		Wait: req.GetWait(), Seen: req.GetSeen(),
	})
	if err != nil {
		return nil, fault.FromGRPC(err)
	}
	res := &deckhandv1.IndexNodeLogResponse{
		NextOffset: found.GetNextOffset(), Rows: found.GetRows(), Lines: found.GetLines(), Continued: found.GetContinued(),
		End: found.GetEnd(), Complete: found.GetComplete(), Ended: found.GetEnded(),
	}
	for _, m := range found.GetMarks() {
		res.Marks = append(res.Marks, &deckhandv1.NodeLogMark{Offset: m.GetOffset(), Rows: m.GetRows(), Lines: m.GetLines(), Continued: m.GetContinued()})
	}
	return res, nil
}

func execMessage(row db.GetNodeExecRow) *deckhandv1.NodeExec {
	e := row.NodeExec
	return &deckhandv1.NodeExec{
		Id: e.ID, NodeId: e.NodeID, NodeName: row.NodeName,
		Target:  deckhandv1.NodeExecTarget(enumValue(deckhandv1.NodeExecTarget_value, "NODE_EXEC_TARGET_", e.Target)),
		AgentId: store.Text(e.AgentID), JailId: e.JailID, Argv: e.Argv, Dir: e.Dir, Terminal: e.Terminal,
		State:     deckhandv1.NodeExecState(enumValue(deckhandv1.NodeExecState_value, "NODE_EXEC_STATE_", e.State)),
		EndReason: e.EndReason, ExitCode: e.ExitCode, Signal: e.Signal, KilledBy: e.KilledBy, Error: e.Error,
		LogBytes: e.LogBytes, CreatedBy: e.UserName, MembersLeft: e.MembersLeft, Files: e.Files, UndoneAt: timestamp(e.UndoneAt), UndoId: store.Text(e.UndoID),
		CreatedAt: timestamppb.New(e.CreatedAt), StartedAt: timestamp(e.StartedAt), FinishedAt: timestamp(e.FinishedAt),
	}
}
