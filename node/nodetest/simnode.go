// Package nodetest provides a simulated node without jails, for benchmarks of
// the hub and for tests that need responses that a real node cannot be made to
// give. Identity, enrolment, link and session are the real ones; commands are
// functions. It also provides tests of the hub with a link to real jails and images in the
// same process.
package nodetest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/identity"
	"github.com/deckhand-sh/deckhand/node/ledger"
	"github.com/deckhand-sh/deckhand/node/link"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Config says how the node enrols and what its commands do.
type Config struct {
	Dir       string
	HubURL    string
	JoinToken string
	Name      string
	// Run returns a command's output and how it ended. It is called once for
	// each exec id; nil ends every command with 0 at once.
	Run func(ctx context.Context, spec *nodev1.ExecSpec) (output string, end *nodev1.Exec)
	// Live is Run for commands that talk while they run; it goes first.
	Live func(ctx context.Context, c *Live) *nodev1.Exec
	// Before, if set, is called before a command is started, in the call that
	// starts it.
	Before func(spec *nodev1.ExecSpec)
	// Snapshot returns the state of a jail's workspace; nil for a node that
	// keeps no snapshots.
	Snapshot func(jailID string) *nodev1.TakeSnapshotResponse
	// Looked, if set, is called before a file is read or a folder is listed.
	Looked func(jailID, path string)
	// Pressure is what the node says of the room that it has; see link.Config.
	Pressure func() (why string, changed <-chan struct{})
	// Telemetry returns what the machine and its jails use; nil for a node that
	// cannot say.
	Telemetry func() *nodev1.TelemetrySample
	// Kept are the samples that the node keeps.
	Kept []*nodev1.TelemetrySample
	// Ledger, if set, is where the node records commands before it starts them, so that
	// another node with the same ledger and identity has them. A command that had not ended is
	// given to Run again, which must continue it: as an init that lived on would.
	Ledger *ledger.Ledger
	// Refuse, if set, is the node's error for every command.
	Refuse error
	Log    hclog.Logger
}

// Node is a simulated node. It is a lifecycle.Service.
type Node struct {
	lifecycle.Service
	nodev1.UnimplementedEgressServiceServer
	nodev1.UnimplementedExecServiceServer
	nodev1.UnimplementedFileServiceServer
	nodev1.UnimplementedJailServiceServer
	listing
	nodev1.UnimplementedSnapshotServiceServer
	nodev1.UnimplementedTelemetryServiceServer

	cfg      Config
	identity *identity.Identity

	mu    sync.Mutex
	execs map[string]*command
	files map[string][]byte // by jail and path
	// buried are the ends of commands that were killed before they started, and
	// holders those who hold a jail frozen, by jail.
	buried  map[string]*nodev1.Exec
	holders map[string][]string
	// jails are the specs that jails were asked for with last.
	jails map[string]*nodev1.JailSpec
	drain *nodev1.SetDrainResponse
	// ended are the credentials that it was told to forget.
	ended []string
	// recorded are the ids whose end the hub says it has on record.
	recorded []string
}

type command struct {
	*Live

	exec   *nodev1.Exec // guarded by Node.mu
	done   chan struct{}
	cancel context.CancelFunc
	killer string // guarded by Node.mu
}

// New enrols a node; start it to connect.
func New(ctx context.Context, cfg Config) (*Node, error) {
	n := &Node{
		cfg: cfg, execs: map[string]*command{}, files: map[string][]byte{},
		buried: map[string]*nodev1.Exec{}, holders: map[string][]string{}, jails: map[string]*nodev1.JailSpec{}, listing: listing{ledger: cfg.Ledger},
	}
	var err error
	if n.identity, err = identity.Open(identity.Config{Dir: cfg.Dir}); err != nil {
		return nil, err
	}
	if !n.identity.Enrolled() {
		if err := n.identity.Enrol(ctx, identity.Enrolment{HubURL: cfg.HubURL, JoinToken: cfg.JoinToken, Name: cfg.Name}); err != nil {
			return nil, err
		}
	}
	if err := adopt(ctx, n); err != nil {
		return nil, err
	}
	n.Service, err = link.New(link.Config{
		Identity: n.identity, HubURL: cfg.HubURL, Log: cfg.Log, Pressure: cfg.Pressure, DrainTimeout: 3 * time.Second,
		Hello: func(context.Context) (*nodev1.SessionResponse_Hello, error) {
			return &nodev1.SessionResponse_Hello{
				Version: "simulated", Capability: nodelink.Capability, Runtimes: []string{"runc"}, Hostname: cfg.Name, Execs: n.running(),
			}, nil
		},
		OnRecorded: func(ids []string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.recorded = append(n.recorded, ids...)
		},
		Services: func(r grpc.ServiceRegistrar) {
			nodev1.RegisterEgressServiceServer(r, n)
			nodev1.RegisterExecServiceServer(r, n)
			nodev1.RegisterJailServiceServer(r, n)
			nodev1.RegisterFileServiceServer(r, n)
			nodev1.RegisterNodeServiceServer(r, n)
			nodev1.RegisterSnapshotServiceServer(r, n)
			nodev1.RegisterTelemetryServiceServer(r, n)
		},
	})
	return n, err
}

// Jail returns the spec that a jail was asked for with last; nil for none.
func (n *Node) Jail(id string) *nodev1.JailSpec {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.jails[id]
}

// EndCredential notes that a credential is to be forgotten.
func (n *Node) EndCredential(_ context.Context, req *nodev1.EndCredentialRequest) (*nodev1.EndCredentialResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = append(n.ended, req.GetCredential())
	return &nodev1.EndCredentialResponse{}, nil
}

// EndedCredentials returns the credentials that it was told to forget, in their order.
func (n *Node) EndedCredentials() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.ended)
}

// GetTelemetry returns the samples kept.
func (n *Node) GetTelemetry(context.Context, *nodev1.GetTelemetryRequest) (*nodev1.GetTelemetryResponse, error) {
	if n.cfg.Telemetry == nil {
		return nil, status.Error(codes.Unimplemented, "this node does not measure its usage")
	}
	return &nodev1.GetTelemetryResponse{Samples: n.cfg.Kept}, nil
}

// WatchTelemetry returns a sample at once, and then one every second.
func (n *Node) WatchTelemetry(_ *nodev1.WatchTelemetryRequest, out grpc.ServerStreamingServer[nodev1.WatchTelemetryResponse]) error {
	if n.cfg.Telemetry == nil {
		return status.Error(codes.Unimplemented, "this node does not measure its usage")
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if err := out.Send(&nodev1.WatchTelemetryResponse{Sample: n.cfg.Telemetry()}); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
}

// ID is the id that the hub gave the node.
func (n *Node) ID() string { return n.identity.NodeID() }

// running returns the commands that have not ended.
func (n *Node) running() []*nodev1.Exec {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []*nodev1.Exec
	for _, c := range n.execs {
		if c.exec.GetState() == nodev1.ExecState_EXEC_STATE_RUNNING {
			out = append(out, c.exec)
		}
	}
	return out
}

// Runs returns how many commands were started.
func (n *Node) Runs() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.execs)
}

// EnsureJail returns that the jail runs.
func (n *Node) EnsureJail(_ context.Context, req *nodev1.EnsureJailRequest) (*nodev1.EnsureJailResponse, error) {
	spec := req.GetSpec()
	if (spec.GetRootfs() == "machine") != req.GetHostMode() {
		return nil, fault.ToGRPC(fault.New(fault.Denied, "host mode and jail do not go together").WithObject(spec.GetJailId()))
	}
	n.mu.Lock()
	n.jails[spec.GetJailId()] = spec
	n.mu.Unlock()
	return &nodev1.EnsureJailResponse{Jail: &nodev1.Jail{
		JailId: spec.GetJailId(), State: nodev1.JailState_JAIL_STATE_RUNNING, Pid: 1, Runtime: spec.GetRuntime(), HostMode: req.GetHostMode(),
	}}, nil
}

// StartExec starts a command, or returns the existing one with that id.
func (n *Node) StartExec(ctx context.Context, req *nodev1.StartExecRequest) (*nodev1.StartExecResponse, error) {
	if n.cfg.Refuse != nil {
		return nil, fault.ToGRPC(n.cfg.Refuse)
	}
	spec := req.GetSpec()
	if n.cfg.Before != nil {
		n.cfg.Before(spec)
	}
	if (spec.GetJailId() == "host") != (spec.GetHostLock().GetLockId() != "") {
		return nil, fault.ToGRPC(fault.New(fault.Denied, "host and host_lock do not go together").WithObject(spec.GetExecId()))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.execs[spec.GetExecId()]; c != nil {
		return &nodev1.StartExecResponse{Exec: c.exec, Existed: true}, nil
	}
	if end := n.buried[spec.GetExecId()]; end != nil {
		return &nodev1.StartExecResponse{Exec: end, Existed: true}, nil
	}
	if by := n.holders[spec.GetJailId()]; len(by) > 0 {
		return nil, fault.ToGRPC(fault.New(fault.Precondition, "jail %s is frozen by %s", spec.GetJailId(), strings.Join(by, ", ")))
	}
	if n.cfg.Ledger != nil {
		// The lock is kept: what is on the ledger is in n.execs too.
		if _, _, err := n.cfg.Ledger.Exec(ctx, spec, "simulated"); err != nil {
			return nil, fault.ToGRPC(err)
		}
	}
	return &nodev1.StartExecResponse{Exec: begin(n, spec, timestamppb.Now()).exec}, nil
}

// ListExecs returns the commands of a jail, or of all.
func (n *Node) ListExecs(_ context.Context, req *nodev1.ListExecsRequest) (*nodev1.ListExecsResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	res := &nodev1.ListExecsResponse{}
	for _, c := range n.execs {
		if (req.GetJailId() == "" || c.exec.GetJailId() == req.GetJailId()) &&
			(!req.GetLiveOnly() || c.exec.GetState() == nodev1.ExecState_EXEC_STATE_RUNNING) {
			res.Execs = append(res.Execs, c.exec)
		}
	}
	return res, nil
}

func (n *Node) command(id string) (*command, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.execs[id]; c != nil {
		return c, nil
	}
	return nil, fault.ToGRPC(fault.New(fault.NotFound, "there is no exec %q", id).WithObject(id))
}

func (n *Node) state(c *command) *nodev1.Exec {
	n.mu.Lock()
	defer n.mu.Unlock()
	return c.exec
}

// WaitExec returns when the command has ended, or in its current state.
func (n *Node) WaitExec(ctx context.Context, req *nodev1.WaitExecRequest) (*nodev1.WaitExecResponse, error) {
	n.mu.Lock()
	buried := n.buried[req.GetExecId()]
	n.mu.Unlock()
	if buried != nil {
		return &nodev1.WaitExecResponse{Exec: buried}, nil
	}
	c, err := n.command(req.GetExecId())
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(req.GetTimeout().AsDuration())
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	return &nodev1.WaitExecResponse{Exec: n.state(c)}, nil
}

// WriteFile keeps a file in memory.
func (n *Node) WriteFile(_ context.Context, req *nodev1.WriteFileRequest) (*nodev1.WriteFileResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := req.GetJailId() + "/" + req.GetPath()
	_, replaced := n.files[key]
	n.files[key] = req.GetContent()
	return &nodev1.WriteFileResponse{Size: int64(len(req.GetContent())), Replaced: replaced}, nil
}

// TakeSnapshot returns the state of a jail's workspace.
func (n *Node) TakeSnapshot(ctx context.Context, req *nodev1.TakeSnapshotRequest) (*nodev1.TakeSnapshotResponse, error) {
	if n.cfg.Snapshot == nil {
		return n.UnimplementedSnapshotServiceServer.TakeSnapshot(ctx, req)
	}
	return n.cfg.Snapshot(req.GetJailId()), nil
}

// RemoveFile takes a file away, as a program in the jail would.
func (n *Node) RemoveFile(jailID, path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.files, jailID+"/"+path)
}

// AppendFile adds to a file in memory.
func (n *Node) AppendFile(_ context.Context, req *nodev1.AppendFileRequest) (*nodev1.AppendFileResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := req.GetJailId() + "/" + req.GetPath()
	n.files[key] = append(n.files[key], req.GetContent()...)
	return &nodev1.AppendFileResponse{Size: int64(len(n.files[key]))}, nil
}

func (n *Node) looked(jailID, path string) {
	if n.cfg.Looked != nil {
		n.cfg.Looked(jailID, path)
	}
}

// ReadFile returns a file of memory.
func (n *Node) ReadFile(_ context.Context, req *nodev1.ReadFileRequest) (*nodev1.ReadFileResponse, error) {
	n.looked(req.GetJailId(), req.GetPath())
	n.mu.Lock()
	defer n.mu.Unlock()
	data, ok := n.files[req.GetJailId()+"/"+req.GetPath()]
	if !ok {
		return nil, fault.ToGRPC(fault.New(fault.NotFound, "there is no file %q", req.GetPath()))
	}
	lines := int64(bytes.Count(data, []byte("\n")))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		lines++
	}
	return &nodev1.ReadFileResponse{Content: data, Size: int64(len(data)), Lines: lines, TotalLines: lines}, nil
}

// DescribeFiles returns what is at exact paths, and finds nothing otherwise: what is in memory
// cannot be copied.
func (n *Node) DescribeFiles(req *nodev1.DescribeFilesRequest, stream grpc.ServerStreamingServer[nodev1.DescribeFilesResponse]) error {
	if req.GetExact() {
		return stream.Send(n.describe(req))
	}
	return stream.Send(&nodev1.DescribeFilesResponse{Missing: req.GetPaths()})
}

func (n *Node) describe(req *nodev1.DescribeFilesRequest) *nodev1.DescribeFilesResponse {
	n.mu.Lock()
	defer n.mu.Unlock()
	res := &nodev1.DescribeFilesResponse{}
	for _, path := range req.GetPaths() {
		e := &nodev1.UploadEntry{Path: path}
		for key, data := range n.files {
			switch name := strings.TrimPrefix(key, req.GetJailId()+"/"); {
			case name == path:
				e.Type, e.Size, e.Mode = "file", int64(len(data)), 0o644
			case strings.HasPrefix(name, path+"/"):
				e.Type = "dir"
			}
		}
		if e.GetType() == "" {
			res.Missing = append(res.Missing, path)
			continue
		}
		res.Entries = append(res.Entries, e)
	}
	return res
}

// ListFiles returns the files of a jail, or what is directly in a folder of it.
func (n *Node) ListFiles(_ context.Context, req *nodev1.ListFilesRequest) (*nodev1.ListFilesResponse, error) {
	n.looked(req.GetJailId(), req.GetPath())
	n.mu.Lock()
	defer n.mu.Unlock()
	res := &nodev1.ListFilesResponse{}
	folders := map[string]bool{}
	for key, data := range n.files {
		name, ok := strings.CutPrefix(key, req.GetJailId()+"/")
		if ok && req.GetPath() != "" {
			name, ok = strings.CutPrefix(name, req.GetPath()+"/")
		}
		folder, _, below := strings.Cut(name, "/")
		switch {
		case !ok || folders[folder]:
		case below && req.GetPath() != "":
			folders[folder] = true
			res.Files = append(res.Files, &nodev1.FileInfo{Path: req.GetPath() + "/" + folder, Type: "directory"})
		default:
			res.Files = append(res.Files, &nodev1.FileInfo{Path: name, Type: "file", Size: int64(len(data))})
		}
	}
	return res, nil
}
