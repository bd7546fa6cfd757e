package initd

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	"github.com/deckhand-sh/deckhand/internal/version"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

// remembered is how many execs that have ended are answered from memory. Those
// before them are known by their folders, so that none is started again.
const remembered = 512

// server implements the protocol.
type server struct {
	instance string
	host     bool    // not in a jail: host_linux.go
	kernel   *kernel // of the jail's own; nil if the host's kernel runs the jail
	trees    trees
	commands commands
	gate     gate
	folders  *folders
	forwards *forwards
	ready    chan *stub
	again    chan struct{} // what is kept ready was taken from
	bufs     buffers

	mu    sync.Mutex
	runs  map[string]*run
	stubs map[int]*stub // by PID, until they are reaped
	stop  bool          // nothing is started any more
	past  []string      // the execs that have ended and are in runs, oldest first
	held  bool          // nothing is started until the jail is thawed
	heard moment        // the last contact with the hub

	clock clock

	rest *time.Timer // fires when nothing has run for a while

	// Of the goroutine that reaps.
	ending    []*stub     // those that have exited and whose trees may have members
	lookAgain *time.Timer // fires while there are such trees
}

func newServer(stateDir string, at place, t trees) (*server, error) {
	// The kernel's, since a random source of our own would be a good part of
	// this program's size.
	instance := make([]byte, 16)
	if _, err := unix.Getrandom(instance, 0); err != nil {
		return nil, fmt.Errorf("make an instance id: %w", err)
	}
	g := newGate()
	f, err := newFolders(stateDir)
	if err != nil {
		return nil, err
	}
	s := &server{
		instance: hex.EncodeToString(instance),
		host:     at.host,
		kernel:   at.kernel,
		trees:    t,
		commands: at.commands,
		gate:     g,
		folders:  f,
		forwards: newForwards(stateDir, g),
		ready:    make(chan *stub, readyStubs),
		again:    make(chan struct{}, 1),
		runs:     map[string]*run{},
		stubs:    map[int]*stub{},

		lookAgain: time.NewTimer(time.Hour),
	}
	s.lookAgain.Stop()
	s.rest = time.AfterFunc(restPause, s.resting)
	return s, nil
}

// Info implements the protocol.
func (s *server) Info(context.Context, *initv1.InfoRequest) (*initv1.InfoResponse, error) {
	return &initv1.InfoResponse{Protocol: Protocol, Version: version.Version, Instance: s.instance}, nil
}

// isID reports whether an id may name a folder: [a-z][a-z0-9_.-]*, at most 64.
func isID(id string) bool {
	return id != "" && len(id) <= 64 && id[0] >= 'a' && id[0] <= 'z' &&
		strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789_.-") == ""
}

// Start implements the protocol.
func (s *server) Start(_ context.Context, req *initv1.StartRequest) (*initv1.StartResponse, error) {
	if !isID(req.GetExecId()) {
		return nil, status.Errorf(codes.InvalidArgument, "exec_id %q is not an id", req.GetExecId())
	}
	if s.host {
		req = onMachine(req)
	}
	if len(req.GetArgv()) == 0 || !s.mayBeRoot() && (req.GetUid() == 0 || req.GetGid() == 0) {
		return nil, status.Error(codes.InvalidArgument, "argv, uid and gid must be given, and the user must not be root")
	}
	if req.GetPtyRows() > math.MaxUint16 || req.GetPtyCols() > math.MaxUint16 || (req.GetPtyRows() == 0) != (req.GetPtyCols() == 0) {
		return nil, status.Error(codes.InvalidArgument, "a terminal has 1 to 65535 rows and columns")
	}
	r := &run{
		ready:  make(chan struct{}),
		done:   make(chan struct{}),
		status: &initv1.Status{ExecId: req.GetExecId(), StartedAt: time.Now().UnixNano()},
	}
	s.mu.Lock()
	if have := s.runs[req.GetExecId()]; have != nil {
		s.mu.Unlock()
		if <-have.ready; have.refused != nil {
			return nil, have.refused
		}
		return &initv1.StartResponse{Status: have.snapshot(), Existed: true}, nil
	}
	if s.stop || s.held {
		why := map[bool]string{true: "the jail is being stopped", false: "the jail is frozen"}[s.stop]
		s.mu.Unlock()
		return nil, status.Error(codes.Unavailable, why)
	}
	s.runs[req.GetExecId()] = r
	s.mu.Unlock()

	r.refused = s.start(r, req)
	if r.refused != nil {
		s.mu.Lock()
		delete(s.runs, req.GetExecId())
		s.mu.Unlock()
	}
	close(r.ready)
	if r.refused != nil {
		return nil, r.refused
	}
	return &initv1.StartResponse{Status: r.snapshot()}, nil
}

// start makes the exec's folder and spawns the command. After an error nothing
// was spawned or recorded. A command that cannot be started is not an error.
func (s *server) start(r *run, req *initv1.StartRequest) (err error) {
	s.gate.do(func() { err = s.record(r, req) })
	if err != nil {
		return err
	}
	if why := s.spawn(r, req); why != "" {
		r.mark(func(st *initv1.Status) { st.StartError = short(why) })
		s.end(r)
	}
	return nil
}

// record makes the exec's folder, which is the record of its start.
func (s *server) record(r *run, req *initv1.StartRequest) error {
	defer func() {
		select {
		case s.again <- struct{}{}:
		default:
		}
	}()
	one, err := s.folders.take(req.GetExecId())
	switch {
	case errors.Is(err, errStarted):
		return status.Errorf(codes.FailedPrecondition, "an init before this one started %s", req.GetExecId())
	case err != nil:
		return startRefused(err)
	}
	r.dir, r.log = one.dir, one.log
	return nil
}

func startRefused(err error) error {
	if errIsFull(err) {
		return status.Errorf(codes.ResourceExhausted, "the node's disk is full: %v", err)
	}
	return status.Errorf(codes.Internal, "%v", err)
}

// spawn gives a stub the command and returns when it runs, or why it does not.
func (s *server) spawn(r *run, req *initv1.StartRequest) string {
	cmd, err := s.commands.newCommand(req)
	if err != nil {
		return err.Error()
	}
	stub, why := s.stubFor(req)
	if stub == nil {
		return why
	}
	r.stub = stub
	p := stub.pipes
	first, err := stub.start(cmd)
	if err != nil || first.kind == reportFailed {
		<-stub.gone
		p.close()
		stub.release()
		if err != nil {
			return "its stub was killed before it started"
		}
		return startError(req, int(first.value), unix.Errno(first.errno))
	}
	crashpoint.At(crashpoint.AfterSpawn, "", req.GetExecId())
	r.mark(func(st *initv1.Status) { st.Pid, st.StubPid = first.value, int32(stub.pid) })
	r.outs, r.pty, r.input = p.outs, p.pty, p.input
	if r.pty != nil {
		s.gate.do(func() { _ = r.log.Resize(uint16(req.GetPtyRows()), uint16(req.GetPtyCols())) })
	}
	if r.input != nil {
		r.input.first(req.GetStdin(), !req.GetStdinOpen() && r.pty == nil)
	}
	for _, out := range r.outs {
		r.copies.Go(func() {
			copyOutput(out.file, out.stream, r.log, s.gate, &s.bufs, func() { go s.kill(r, nil) }, func() { s.limitOutput(r, req.GetOutputLimit()) })
		})
	}
	go s.follow(r, req)
	return ""
}

// follow waits for a command and its tree to end.
func (s *server) follow(r *run, req *initv1.StartRequest) {
	line := r.stub.pipes.line
	began := s.clock.now()
	if grace := time.Duration(req.GetOfflineGraceMs()) * time.Millisecond; grace > 0 {
		timer := time.AfterFunc(grace, func() { s.enforceGrace(r, grace, began) })
		defer timer.Stop()
	}
	if timeout := time.Duration(req.GetTimeoutMs()) * time.Millisecond; timeout > 0 {
		timer := time.AfterFunc(timeout, func() { s.enforceTimeout(r, timeout, began) })
		defer timer.Stop()
	}
	for {
		rep, err := readReport(line)
		if err != nil {
			break // the stub is gone
		}
		if rep.kind == reportExited {
			r.mark(func(st *initv1.Status) { st.LeaderExited = true; setWait(st, rep.value) })
		}
	}
	<-r.stub.gone
	_ = line.Close()
	if r.input != nil {
		r.input.end()
	}
	if !r.stub.clean {
		// The stub was killed, by the kernel for memory for example.
		left := s.trees.killRest(s)
		r.mark(func(st *initv1.Status) {
			st.MembersLeft = int32(left)
			if !st.GetLeaderExited() {
				st.LeaderExited, st.Signal = true, int32(unix.SIGKILL)
			}
		})
	}
	r.stub.release()
	r.drain()
	crashpoint.At(crashpoint.AfterExit, "", req.GetExecId())
	s.end(r)
}

func setWait(st *initv1.Status, wait int32) {
	ws := unix.WaitStatus(wait)
	if ws.Signaled() {
		st.Signal = int32(ws.Signal())
		return
	}
	st.ExitCode = int32(ws.ExitStatus())
}

// end closes the log and writes the status to disk, then wakes the waiters.
func (s *server) end(r *run) {
	logErr := r.log.Err()
	if err := r.log.Close(); logErr == nil {
		logErr = err
	}
	size, dropped := r.log.Size(), r.log.Dropped()
	r.mu.Lock()
	r.status.Ended, r.status.LogBytes, r.status.LogDropped = true, size, dropped
	r.status.StdinBytes = r.input.given()
	r.status.EndedAt = time.Now().UnixNano()
	if logErr != nil {
		r.status.LogError = logErr.Error()
	}
	final := proto.CloneOf(r.status)
	r.mu.Unlock()
	var err error
	s.gate.do(func() { err = writeExit(r.dir, final) })
	if err != nil {
		// The disk is full. This init still knows, and says so when asked; the
		// daemon's ledger keeps it from then on.
		r.mu.Lock()
		r.status.LogError = err.Error()
		r.mu.Unlock()
	} else {
		s.forget(final.GetExecId())
	}
	close(r.done)
	s.rest.Reset(restPause)
}

// forget lets go of the oldest of the execs whose end is on disk.
func (s *server) forget(ended string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past = append(s.past, ended)
	for len(s.past) > remembered {
		delete(s.runs, s.past[0])
		s.past = s.past[1:]
	}
}

// Wait implements the protocol.
func (s *server) Wait(ctx context.Context, req *initv1.WaitRequest) (*initv1.WaitResponse, error) {
	r, err := s.run(req.GetExecId())
	if err != nil {
		return nil, err
	}
	var timeout <-chan time.Time
	if req.GetTimeoutMs() < 0 {
		return &initv1.WaitResponse{Status: r.snapshot()}, nil
	}
	if req.GetTimeoutMs() > 0 {
		timer := time.NewTimer(time.Duration(req.GetTimeoutMs()) * time.Millisecond)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-r.done:
	case <-timeout:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &initv1.WaitResponse{Status: r.snapshot()}, nil
}

// maxWords bounds what is said in a status, which has its room on disk.
const maxWords = 1 << 10

func short(text string) string {
	if len(text) <= maxWords {
		return text
	}
	return strings.ToValidUTF8(text[:maxWords], "") + "…"
}

// Kill implements the protocol.
func (s *server) Kill(_ context.Context, req *initv1.KillRequest) (*initv1.KillResponse, error) {
	r, err := s.run(req.GetExecId())
	if err != nil {
		return nil, err
	}
	by := short(req.GetBy())
	if by == "" {
		by = "unknown"
	}
	note := func(st *initv1.Status) {
		if st.GetKilledBy() == "" && !st.GetTimedOut() && !st.GetOutputLimit() {
			st.KilledBy = by
		}
	}
	if req.GetNoteOnly() {
		r.mark(note)
		return &initv1.KillResponse{Status: r.snapshot()}, nil
	}
	left := s.kill(r, note)
	st := r.snapshot()
	if !st.GetEnded() {
		st.MembersLeft = int32(left)
	}
	return &initv1.KillResponse{Status: st}, nil
}

// kill ends a run's tree, marking first whose doing it is, and returns when it
// has ended, or how much is left of it.
func (s *server) kill(r *run, mark func(st *initv1.Status)) (left int) {
	if r.ended() || r.stub == nil {
		return 0
	}
	if mark != nil {
		r.mark(mark)
	}
	if left = s.killTree(r.stub, killPatience); left > 0 {
		return left
	}
	<-r.done
	return 0
}

// List implements the protocol.
func (s *server) List(context.Context, *initv1.ListRequest) (*initv1.ListResponse, error) {
	out := &initv1.ListResponse{}
	for _, r := range s.all() {
		if !r.ended() {
			out.Statuses = append(out.Statuses, r.snapshot())
		}
	}
	slices.SortFunc(out.Statuses, func(a, b *initv1.Status) int { return strings.Compare(a.GetExecId(), b.GetExecId()) })
	return out, nil
}

// all returns every run, each of which has been spawned.
func (s *server) all() []*run {
	s.mu.Lock()
	known := slices.Collect(maps.Values(s.runs))
	s.mu.Unlock()
	return slices.DeleteFunc(known, func(r *run) bool {
		<-r.ready
		return r.refused != nil
	})
}

// run returns a run that has been spawned.
func (s *server) run(id string) (*run, error) {
	s.mu.Lock()
	r := s.runs[id]
	s.mu.Unlock()
	if r != nil {
		if <-r.ready; r.refused == nil {
			return r, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "this init never started %s", id)
}

// shutdown kills every run and returns when their ends are on disk, or when
// patience has ended.
func (s *server) shutdown() {
	s.mu.Lock()
	s.stop = true
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, r := range s.all() {
		wg.Go(func() {
			s.kill(r, func(st *initv1.Status) { st.KilledBy = "the jail was stopped" })
		})
	}
	wg.Wait()
}
