// Package exec runs commands in the jails of a node, each at most once, and
// reports reliably how each one ended.
//
// The ledger records a command on disk before it is spawned. The jail's init
// spawns it and writes its output and exit status. This package connects the
// two and serves the hub. It holds no state that they do not have. After a
// crash it examines every unfinished record:
//
//   - an exec whose exit status init has written has ended with that status;
//   - one that the jail's init is running is running, and is watched again;
//   - one that the same, still living init never started is started now;
//   - one that was never started and whose init is gone is not_started;
//   - one that was started and has no exit status was lost with its jail;
//   - one from an earlier boot of the machine is unknown, unless it has an exit
//     status.
package exec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/grep"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/node/execlog"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Egress counts what execs send out of their jails.
type Egress interface {
	// Begin notes that an exec is about to run in a jail.
	Begin(jail, exec string)
	// BeginTool is Begin for one that makes the call of a tool, which proves that by a
	// secret.
	BeginTool(jail, exec, tool, secret string)
	// End returns what an exec sent out, which has ended; nil for nothing.
	End(jail, exec string) *nodev1.EgressUse
}

// Config holds the dependencies and settings of a Service, which owns none of
// them.
type Config struct {
	Ledger *ledger.Ledger
	Jails  *jail.Manager
	// Workspaces records the changes of running commands; nil to record none.
	Workspaces Workspaces
	// Egress is notified of running commands and counts what they sent; nil for
	// none.
	Egress Egress
	// Ended, if set, is called with each exec that has ended. It must not
	// block.
	Ended func(e *nodev1.Exec)
	// Log receives the service's own log messages; nil discards them.
	Log hclog.Logger
	// CollectEvery is the interval between two collections of old results; 0
	// means one hour.
	CollectEvery time.Duration
	// Mask masks secrets in output that is read; nil masks only text in the
	// format of a key. For the values in use, pass the Mask method of the
	// process's Redactor.
	Mask execlog.Mask
	// LogAge is how long the log of an exec is kept after its end; 0 means 7
	// days. Its result is kept as long as the ledger keeps it.
	LogAge time.Duration
	// LogBytes limits the total size of the logs of ended execs; the oldest
	// logs of the jail with the most bytes are deleted first. 0 means 20 GiB.
	LogBytes int64
	// OutputBytes is the amount of output after which a command is killed,
	// unless its own limit is lower; 0 means 4 GiB.
	OutputBytes int64
	// Now is the wall clock, from which ages are computed; nil means time.Now.
	// After it was set, and after a start, nothing is deleted because of its
	// age for one hour of Uptime.
	Now func() time.Time
	// Uptime is the monotonic clock; nil means the time since NewService.
	Uptime func() time.Duration
}

// DefaultOutputBytes is the amount of output after which a command is killed.
const DefaultOutputBytes = 4 << 30

const (
	defaultTimeout = 10 * time.Minute
	defaultWait    = 20 * time.Second
	// settleTimeout limits how long Start waits to learn the state of the execs
	// of an earlier daemon.
	settleTimeout = 10 * time.Second
)

// Service implements nodev1.ExecServiceServer. It is a lifecycle.Service and
// must be started before it serves calls.
type Service struct {
	lifecycle.Runner
	nodev1.UnimplementedExecServiceServer

	ledger  *ledger.Ledger
	jails   *jail.Manager
	spaces  Workspaces
	egress  Egress
	log     hclog.Logger
	ended   func(e *nodev1.Exec)
	collect time.Duration
	mask    execlog.Mask
	logs    retention
	clocks  clocks // of the loop
	search  *grep.Slots
	output  int64 // bytes after which a command is killed
	contact contact
	// follows counts the readers that are waiting for more of a log.
	follows atomic.Int64
	// recorded are the execs whose end the hub has stored and the ledger does
	// not know yet; guarded by mu. If the daemon dies and loses them, their
	// results are only kept longer.
	recorded []string

	// finished passes the ends of execs to recordEnds.
	finished chan *nodev1.Exec

	mu   sync.Mutex
	ctx  context.Context // of the watches; nil when not running
	live map[string]*watch
	wg   sync.WaitGroup
}

// NewService creates a Service.
func NewService(cfg Config) (*Service, error) {
	if cfg.Ledger == nil || cfg.Jails == nil {
		return nil, errors.New("exec: Ledger and Jails must be given")
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	if cfg.Ended == nil {
		cfg.Ended = func(*nodev1.Exec) {}
	}
	if cfg.CollectEvery == 0 {
		cfg.CollectEvery = time.Hour
	}
	if cfg.Mask == nil {
		cfg.Mask = (*redact.Redactor)(nil).Mask
	}
	if cfg.OutputBytes == 0 {
		cfg.OutputBytes = DefaultOutputBytes
	}
	if cfg.OutputBytes < 0 {
		return nil, fmt.Errorf("exec: OutputBytes is %d; it cannot be negative", cfg.OutputBytes)
	}
	logs, err := newRetention(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Uptime == nil {
		began := time.Now()
		cfg.Uptime = func() time.Duration { return time.Since(began) }
	}
	return &Service{
		ledger: cfg.Ledger, jails: cfg.Jails, spaces: cfg.Workspaces, egress: cfg.Egress, log: cfg.Log, ended: cfg.Ended, collect: cfg.CollectEvery,
		mask: cfg.Mask, logs: logs, clocks: clocks{wall: logs.now, uptime: cfg.Uptime}, search: grep.NewSlots(), output: cfg.OutputBytes, contact: newContact(),
		live: map[string]*watch{}, finished: make(chan *nodev1.Exec, 64),
	}, nil
}

// Start finds the execs that an earlier daemon left running. It returns when
// the state of each is known, or after 10 seconds.
func (s *Service) Start(ctx context.Context) error {
	records, err := s.ledger.Execs(ctx, "", true)
	if err != nil {
		return fmt.Errorf("find the unfinished execs: %w", err)
	}
	s.resume(ctx, records)
	started := make(chan struct{})
	if err := s.Run(ctx, func(ctx context.Context) error {
		s.mu.Lock()
		s.ctx = ctx
		for _, rec := range records {
			s.watch(rec, nil)
		}
		found := make([]*watch, 0, len(s.live))
		for _, w := range s.live {
			found = append(found, w)
		}
		s.mu.Unlock()
		settle(ctx, found)
		close(started)
		return s.loop(ctx)
	}); err != nil {
		return err
	}
	<-started
	return nil
}

func settle(ctx context.Context, found []*watch) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for _, w := range found {
		select {
		case <-w.known:
		case <-ctx.Done():
			return
		}
	}
}

// loop writes ends to the ledger, collects old results and, when it stops,
// waits for the watches.
func (s *Service) loop(ctx context.Context) error {
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		s.recordEnds()
	}()
	relayed := make(chan struct{})
	go func() {
		defer close(relayed)
		s.relayContact(ctx)
	}()
	defer func() { <-relayed }()
	tick := time.NewTicker(s.collect)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.collectOnce(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	s.ctx = nil
	s.mu.Unlock()
	s.wg.Wait()
	s.tellLedger(context.WithoutCancel(ctx))
	s.finished <- nil
	<-recorded
	s.mu.Lock()
	s.live = map[string]*watch{}
	s.mu.Unlock()
	return nil
}

// gatherEnds is how long ends are gathered for one write to the ledger. Until
// then they are on disk in init's own files. Separate writes would delay the
// starts of other execs.
const gatherEnds = 20 * time.Millisecond

// recordEnds writes ends to the ledger until it receives nil.
func (s *Service) recordEnds() {
	for end := range s.finished {
		var ends []*nodev1.Exec
		timer := time.NewTimer(gatherEnds)
		for gathering := true; gathering && end != nil; {
			ends = append(ends, end)
			select {
			case end = <-s.finished:
			case <-timer.C:
				gathering = false
			}
		}
		timer.Stop()
		s.recordSome(ends)
		if end == nil {
			return
		}
	}
}

// recordSome writes ends to the ledger. Those that cannot be written remain in
// memory, and the next daemon finds them again.
func (s *Service) recordSome(ends []*nodev1.Exec) {
	if len(ends) == 0 {
		return
	}
	if err := s.ledger.FinishExecs(context.Background(), ends); err != nil {
		s.log.Error("record the ends of execs", "execs", len(ends), "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, end := range ends {
		delete(s.live, end.GetExecId())
	}
}

// Recorded notes the execs whose end the hub has stored. It does not block.
func (s *Service) Recorded(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded = append(s.recorded, ids...)
}

// tellLedger writes the ids from Recorded to the ledger. It does so
// periodically and in batches, because only the collection reads them.
func (s *Service) tellLedger(ctx context.Context) {
	s.mu.Lock()
	ids := s.recorded
	s.recorded = nil
	s.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	if err := s.ledger.Recorded(ctx, ids); err != nil {
		s.log.Warn("record which ends the hub has stored; their results are kept for longer", "execs", len(ids), "error", err)
	}
}

// collectOnce deletes results and logs whose retention has passed.
func (s *Service) collectOnce(ctx context.Context) {
	s.tellLedger(ctx)
	if jump := s.clocks.look(); jump != 0 {
		s.log.Warn("the clock of this machine was set: nothing is deleted by its age for now", "by", jump, "for", distrust)
	}
	if s.clocks.trusted() {
		s.forgetResults(ctx)
	}
	if err := s.trimLogs(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("delete old logs", "error", err)
	}
}

// forgetResults deletes the results whose retention has passed, with their
// logs.
func (s *Service) forgetResults(ctx context.Context) {
	gone, err := s.ledger.Collect(ctx, s.contact.lately.Swap(false))
	if err != nil {
		s.log.Error("collect old results", "error", err)
		return
	}
	for _, rec := range gone {
		if err := s.jails.RemoveExec(rec.GetSpec().GetJailId(), rec.GetSpec().GetExecId()); err != nil {
			s.log.Error("delete an old log", "exec_id", rec.GetSpec().GetExecId(), "error", err)
		}
	}
}

// StartExec implements the service.
func (s *Service) StartExec(ctx context.Context, req *nodev1.StartExecRequest) (*nodev1.StartExecResponse, error) {
	out, existed, err := s.start(ctx, req.GetSpec())
	if err != nil {
		return nil, s.fail("start an exec", err)
	}
	if req.Wait != nil && out.GetState() != nodev1.ExecState_EXEC_STATE_ENDED {
		if out, err = s.wait(ctx, &nodev1.WaitExecRequest{ExecId: out.GetExecId(), Timeout: req.GetWait()}); err != nil {
			return nil, s.fail("wait for an exec", err)
		}
	}
	return &nodev1.StartExecResponse{Exec: out, Existed: existed}, nil
}

func (s *Service) start(ctx context.Context, spec *nodev1.ExecSpec) (*nodev1.Exec, bool, error) {
	if err := validate(spec); err != nil {
		return nil, false, err
	}
	rec, err := s.ledger.FindExec(ctx, spec)
	if err != nil {
		return nil, false, err
	}
	if rec != nil {
		out, err := s.stands(ctx, rec)
		return out, true, err
	}
	if until := spec.GetHostLock().GetExpiresAt(); until != nil && !time.Now().Before(until.AsTime()) {
		return nil, false, fault.New(fault.Precondition, "the lock of the node has ended, at %s", until.AsTime().Format(time.RFC3339)).
			WithCode(fault.NodeLocked).WithFix("lock the node again").WithObject(spec.GetExecId())
	}
	// An error about the jail is returned before anything is recorded.
	conn, err := s.jails.InitToStart(ctx, spec.GetJailId())
	if err != nil {
		return nil, false, err
	}
	if err := canTake(ctx, conn, spec); err != nil {
		return nil, false, err
	}
	w, existed, err := s.accept(ctx, spec, conn)
	if err != nil {
		return nil, existed, err
	}
	if err := w.await(ctx, w.known); err != nil {
		return nil, existed, err
	}
	return w.exec(), existed, nil
}

// accept records an exec and creates its watch, which starts it. It is atomic
// for all callers with the same id: the second one gets the watch of the first.
func (s *Service) accept(ctx context.Context, spec *nodev1.ExecSpec, conn *jail.Init) (*watch, bool, error) {
	s.mu.Lock()
	if s.ctx == nil {
		s.mu.Unlock()
		return nil, false, fault.New(fault.Unavailable, "the node is stopping").WithFix("try again once it is back")
	}
	s.mu.Unlock()
	rec, existed, err := s.ledger.Exec(ctx, spec, conn.Instance)
	if err != nil {
		return nil, existed, err
	}
	crashpoint.At(crashpoint.AfterLedger, "", spec.GetExecId())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		return nil, existed, fault.New(fault.Unavailable, "the node is stopping").WithFix("ask for %s again once it is back", spec.GetExecId())
	}
	if rec.GetResult() != nil {
		return ended(rec), existed, nil // it ended, or was killed, meanwhile
	}
	if existed {
		conn = nil
	}
	w := s.watch(rec, conn)
	w.askedBy(ctx)
	return w, existed, nil
}

// stands returns the current state of a recorded exec.
func (s *Service) stands(ctx context.Context, rec *nodev1.ExecRecord) (*nodev1.Exec, error) {
	if rec.GetResult() != nil {
		return rec.GetResult(), nil
	}
	w, err := s.watching(ctx, rec)
	if err != nil {
		return nil, err
	}
	if err := w.await(ctx, w.known); err != nil {
		return nil, err
	}
	w.refresh(ctx)
	return w.exec(), nil
}

// watching returns the watch of an unfinished exec.
func (s *Service) watching(ctx context.Context, rec *nodev1.ExecRecord) (*watch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := rec.GetSpec().GetExecId()
	if s.ctx == nil {
		return nil, fault.New(fault.Unavailable, "the node is stopping").WithFix("ask for %s again once it is back", id)
	}
	if w := s.live[id]; w != nil {
		w.askedBy(ctx)
		return w, nil
	}
	// It may have ended after the record was read.
	now, err := s.ledger.GetExec(ctx, id)
	if err != nil {
		return nil, err
	}
	if now.GetResult() != nil {
		return ended(now), nil
	}
	w := s.watch(rec, nil)
	w.askedBy(ctx)
	return w, nil
}

// find returns the record of an exec.
func (s *Service) find(ctx context.Context, id string) (*nodev1.ExecRecord, error) {
	rec, err := s.ledger.GetExec(ctx, id)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, fault.New(fault.NotFound, "no exec %q on this node", id).WithObject(id)
	}
	return rec, nil
}

// GetExec implements the service.
func (s *Service) GetExec(ctx context.Context, req *nodev1.GetExecRequest) (*nodev1.GetExecResponse, error) {
	rec, err := s.find(ctx, req.GetExecId())
	if err != nil {
		return nil, s.fail("find an exec", err)
	}
	out, err := s.stands(ctx, rec)
	if err != nil {
		return nil, s.fail("find an exec", err)
	}
	return &nodev1.GetExecResponse{Exec: out}, nil
}

// WaitExec implements the service.
func (s *Service) WaitExec(ctx context.Context, req *nodev1.WaitExecRequest) (*nodev1.WaitExecResponse, error) {
	out, err := s.wait(ctx, req)
	if err != nil {
		return nil, s.fail("wait for an exec", err)
	}
	return &nodev1.WaitExecResponse{Exec: out}, nil
}

func (s *Service) wait(ctx context.Context, req *nodev1.WaitExecRequest) (*nodev1.Exec, error) {
	timeout := defaultWait
	if req.Timeout != nil {
		timeout = req.GetTimeout().AsDuration()
	}
	s.mu.Lock()
	w := s.live[req.GetExecId()]
	s.mu.Unlock()
	if w == nil {
		rec, err := s.find(ctx, req.GetExecId())
		if err != nil {
			return nil, err
		}
		if rec.GetResult() != nil {
			return rec.GetResult(), nil
		}
		if w, err = s.watching(ctx, rec); err != nil {
			return nil, err
		}
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := w.await(waiting, w.settled(req.GetUntilEnd())); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		w.refresh(ctx)
	}
	return w.exec(), nil
}

// ListExecs implements the service.
func (s *Service) ListExecs(ctx context.Context, req *nodev1.ListExecsRequest) (*nodev1.ListExecsResponse, error) {
	records, err := s.ledger.Execs(ctx, req.GetJailId(), req.GetLiveOnly())
	if err != nil {
		return nil, s.fail("list the execs", err)
	}
	out := &nodev1.ListExecsResponse{}
	for _, rec := range records {
		one, err := s.stands(ctx, rec)
		if err != nil {
			return nil, s.fail("list the execs", err)
		}
		if req.GetLiveOnly() && one.GetState() == nodev1.ExecState_EXEC_STATE_ENDED {
			continue
		}
		if req.GetUsage() && one.GetState() == nodev1.ExecState_EXEC_STATE_RUNNING {
			one = proto.CloneOf(one)
			one.Usage = s.usage(ctx, rec)
		}
		out.Execs = append(out.Execs, one)
	}
	return out, nil
}

// KillExec implements the service.
func (s *Service) KillExec(ctx context.Context, req *nodev1.KillExecRequest) (*nodev1.KillExecResponse, error) {
	out, err := s.kill(ctx, req)
	if err != nil {
		return nil, s.fail("kill an exec", err)
	}
	return &nodev1.KillExecResponse{Exec: out}, nil
}

func (s *Service) kill(ctx context.Context, req *nodev1.KillExecRequest) (*nodev1.Exec, error) {
	rec, err := s.find(ctx, req.GetExecId())
	if fault.Is(err, fault.NotFound) {
		rec, err = s.bury(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	if rec.GetResult() != nil {
		return rec.GetResult(), nil
	}
	w, err := s.watching(ctx, rec)
	if err != nil {
		return nil, err
	}
	if err := w.await(ctx, w.known); err != nil {
		return nil, err
	}
	return w.kill(ctx, req.GetBy())
}

// fail maps an error to one for the caller, and logs those that callers must
// not see.
func (s *Service) fail(doing string, err error) error {
	if fault.As(err) == nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		s.log.Error(doing, "error", err)
	}
	return fault.ToGRPC(err)
}
