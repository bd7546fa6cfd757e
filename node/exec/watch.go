package exec

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/traceparent"
	"github.com/deckhand-sh/deckhand/node/initd"
	"github.com/deckhand-sh/deckhand/node/jail"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// watch follows one unfinished exec to its end.
type watch struct {
	s     *Service
	rec   *nodev1.ExecRecord
	known chan struct{} // closed when it is known how the exec stands
	job   chan struct{} // closed when it has become a job, or has ended
	done  chan struct{} // closed when it has ended

	// started is when the command was started, by the monotonic clock; used by run.
	started time.Time
	// secret is what the exec of a tool's call proves that by; empty for none, and after a
	// restart of the daemon: it is written nowhere.
	secret string

	once sync.Once // closes known

	mu    sync.Mutex
	now   *nodev1.Exec // never changed in place; guarded by mu
	conn  *jail.Init   // of the init that runs it; guarded by mu
	oom   int64        // processes killed for memory before it; guarded by mu
	asked string       // correlation id of who asked last, for the log; guarded by mu
	trace string       // its trace context, if it had one; guarded by mu
}

const (
	// retryPause is how long a watch waits after init or containerd did not
	// respond.
	retryPause = 500 * time.Millisecond
	// againPause is how long it waits after a state that changed while it was
	// read.
	againPause = 5 * time.Millisecond
)

// watch creates the watch of an exec. With conn, the exec was just recorded and
// is to be started. The caller must hold s.mu, and s.ctx must be set.
func (s *Service) watch(rec *nodev1.ExecRecord, conn *jail.Init) *watch {
	id := rec.GetSpec().GetExecId()
	if w := s.live[id]; w != nil {
		return w
	}
	w := &watch{
		s: s, rec: rec, known: make(chan struct{}), job: make(chan struct{}), done: make(chan struct{}),
		now: &nodev1.Exec{
			ExecId: id, JailId: rec.GetSpec().GetJailId(),
			State: nodev1.ExecState_EXEC_STATE_PENDING, CreatedAt: rec.GetCreatedAt(),
		},
	}
	if rec.GetJobSince() != nil {
		w.now = asJob(w.now, rec)
		close(w.job)
	}
	s.live[id] = w
	if s.egress != nil {
		if tool := rec.GetSpec().GetTool(); tool != "" && conn != nil {
			w.secret = rand.Text()
			s.egress.BeginTool(rec.GetSpec().GetJailId(), id, tool, w.secret)
		} else {
			s.egress.Begin(rec.GetSpec().GetJailId(), id)
		}
	}
	ctx := s.ctx
	s.wg.Go(func() { w.run(ctx, conn) })
	return w
}

// ended returns a watch that has nothing left to do.
func ended(rec *nodev1.ExecRecord) *watch {
	w := &watch{rec: rec, now: rec.GetResult(), known: make(chan struct{}), job: make(chan struct{}), done: make(chan struct{})}
	close(w.known)
	close(w.job)
	close(w.done)
	return w
}

func (w *watch) exec() *nodev1.Exec {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// askedBy notes the correlation id and trace context of the caller. The record
// does not contain them, so a restarted daemon learns them with the next call
// for the exec.
func (w *watch) askedBy(ctx context.Context) {
	if id := logging.Correlation(ctx); id != "" {
		w.mu.Lock()
		w.asked, w.trace = id, traceparent.Of(ctx)
		w.mu.Unlock()
	}
}

// logEnd writes a command's end to the node's log.
func (w *watch) logEnd(final *nodev1.Exec) {
	w.mu.Lock()
	ctx := traceparent.With(logging.WithCorrelation(context.Background(), w.asked), w.trace)
	w.mu.Unlock()
	logging.From(ctx, w.s.log).Info("a command ended", "exec_id", final.GetExecId(), "jail_id", final.GetJailId(),
		"reason", final.GetEndReason().String(), "exit_code", final.GetExitCode(), "log_bytes", final.GetLogBytes())
}

// await waits for known or done.
func (w *watch) await(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	default:
	}
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// set records the current state of a running exec.
func (w *watch) set(now *nodev1.Exec, conn *jail.Init) {
	w.mu.Lock()
	if w.now.GetState() != nodev1.ExecState_EXEC_STATE_ENDED {
		if w.now.GetJobSince() != nil {
			now.JobSince, now.Workspace = w.now.GetJobSince(), w.now.GetWorkspace()
		}
		w.now = now
		if conn != nil {
			w.conn = conn
		}
	}
	w.mu.Unlock()
	w.once.Do(func() { close(w.known) })
}

// run determines the state of the exec, with retries while init or containerd
// are unavailable, until the exec has ended or the service stops.
func (w *watch) run(ctx context.Context, conn *jail.Init) {
	var final *nodev1.Exec
	for {
		var err error
		if conn != nil {
			final, err = w.begin(ctx, conn)
		} else {
			final, err = w.resolve(ctx)
		}
		conn = nil
		if ctx.Err() != nil {
			return
		}
		if final != nil {
			break
		}
		pause := againPause
		if err != nil {
			pause = retryPause
			w.s.log.Warn("an exec cannot be followed for now", "exec_id", w.rec.GetSpec().GetExecId(), "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
	if now := w.exec(); now.GetJobSince() != nil {
		final.JobSince, final.Workspace = now.GetJobSince(), now.GetWorkspace()
	}
	w.recordAfter(ctx, final)
	if ctx.Err() != nil {
		return // the next daemon looks at the workspace
	}
	if w.s.egress != nil {
		final.Egress = w.s.egress.End(final.GetJailId(), final.GetExecId())
	}
	// Waiting callers get the result first: init's file, or the machine's boot
	// id, is on disk already. Then the ledger is written, and only then is the
	// watch removed.
	w.set(final, nil)
	if final.GetJobSince() == nil {
		close(w.job)
	}
	close(w.done)
	w.s.ended(final)
	w.logEnd(final)
	w.s.finished <- final
}

// noShell says what to do without the shell that a command needs, for the agent or the person
// that it is of.
func noShell(spec *nodev1.ExecSpec) string {
	switch {
	case spec.GetPty() != nil && spec.GetByPerson():
		return "this jail's image has no shell, which a terminal needs: run one program with deckhand node exec NODE --agent AGENT -- PROGRAM ARGUMENTS"
	case spec.GetByPerson():
		return "this jail's image has no /bin/bash and no /bin/sh, one of which this command line needs: use an image that has a shell"
	}
	return "this jail's image has no shell: call one program with plain arguments, without pipes, redirections, variables, wildcards or several commands"
}

// begin starts an exec that the ledger has and follows it.
func (w *watch) begin(ctx context.Context, conn *jail.Init) (*nodev1.Exec, error) {
	req := w.s.request(w.rec.GetSpec(), conn)
	if w.secret != "" && conn.Proxied {
		req.Stdin = append([]byte(nodelink.ProxySecret+w.secret+"\n"), req.GetStdin()...)
	}
	if len(req.GetArgv()) == 0 {
		return w.end(nodev1.EndReason_END_REASON_START_FAILED, func(e *nodev1.Exec) {
			e.StartError = noShell(w.rec.GetSpec())
		}), nil
	}
	if refusal, err := w.recordBefore(ctx); refusal != nil || err != nil {
		return refusal, err
	}
	w.countOOM(conn)
	resp, err := conn.Start(ctx, req)
	switch status.Code(err) {
	case codes.OK:
		return w.follow(ctx, conn, resp.GetStatus())
	case codes.ResourceExhausted, codes.Internal, codes.InvalidArgument:
		// Init replied that it started nothing and recorded nothing.
		return w.end(nodev1.EndReason_END_REASON_START_FAILED, func(e *nodev1.Exec) {
			e.StartError = status.Convert(err).Message()
		}), nil
	case codes.Unavailable:
		if conn.Alive() {
			return w.end(nodev1.EndReason_END_REASON_NOT_STARTED, nil), nil
		}
	}
	// Init died, or knows the exec from before: its files show what happened.
	return nil, nil
}

// follow waits for the end of an exec that init runs.
func (w *watch) follow(ctx context.Context, conn *jail.Init, st *initv1.Status) (*nodev1.Exec, error) {
	for !st.GetEnded() {
		w.set(fromStatus(w.rec, st), conn)
		timeout, becomes := w.untilJob(st)
		if becomes && timeout == 0 {
			if err := w.becomeJob(ctx); err != nil {
				return nil, err
			}
			continue
		}
		resp, err := conn.Wait(ctx, &initv1.WaitRequest{ExecId: w.rec.GetSpec().GetExecId(), TimeoutMs: inMillis(timeout)})
		if err != nil {
			return nil, nil
		}
		st = resp.GetStatus()
	}
	return w.fromEnd(st, conn), nil
}

// fromEnd returns the end that init reports, and records whether it was for
// memory.
func (w *watch) fromEnd(st *initv1.Status, conn *jail.Init) *nodev1.Exec {
	out := fromStatus(w.rec, st)
	killed := out.GetSignal() == int32(syscall.SIGKILL) || out.GetExitCode() == 128+int32(syscall.SIGKILL)
	byItself := out.GetEndReason() == nodev1.EndReason_END_REASON_SIGNALLED || out.GetEndReason() == nodev1.EndReason_END_REASON_EXITED
	if killed && byItself && conn != nil {
		w.mu.Lock()
		before := w.oom
		w.mu.Unlock()
		if n, err := conn.OOMKills(); err == nil && before >= 0 && n > before {
			out.EndReason = nodev1.EndReason_END_REASON_OUT_OF_MEMORY
		}
	}
	return out
}

// countOOM notes how many processes of the jail had been killed for memory
// before.
func (w *watch) countOOM(conn *jail.Init) {
	n, err := conn.OOMKills()
	if err != nil {
		n = -1
	}
	w.mu.Lock()
	w.oom = n
	w.mu.Unlock()
}

// resolve determines the state of an exec that this daemon has not followed, or
// whose init is gone. It returns its end, or neither an end nor an error if the
// caller should retry at once.
func (w *watch) resolve(ctx context.Context) (*nodev1.Exec, error) {
	spec := w.rec.GetSpec()
	started, end, err := w.files()
	if err != nil {
		return nil, err
	}
	if end != nil {
		return w.fromEnd(end, nil), nil
	}
	if w.rec.GetBootId() != w.s.ledger.BootID() {
		return w.end(nodev1.EndReason_END_REASON_UNKNOWN, nil), nil
	}
	conn, err := w.s.jails.Init(ctx, spec.GetJailId())
	switch {
	case fault.Is(err, fault.Precondition), fault.Is(err, fault.NotFound):
		return w.afterJail(ctx, started)
	case err != nil:
		return nil, err
	}
	resp, err := conn.Wait(ctx, &initv1.WaitRequest{ExecId: spec.GetExecId(), TimeoutMs: -1})
	switch status.Code(err) {
	case codes.OK:
		w.countOOM(conn)
		return w.follow(ctx, conn, resp.GetStatus())
	case codes.NotFound:
		if conn.Instance == w.rec.GetInitInstance() && !started {
			return w.begin(ctx, conn)
		}
		// Another init runs in the jail now. What the previous one wrote is
		// final.
		return w.afterJail(ctx, started)
	}
	if conn.Alive() {
		return nil, fmt.Errorf("ask init: %w", err)
	}
	return nil, nil
}

// afterJail returns the end of an exec whose init is gone.
func (w *watch) afterJail(ctx context.Context, started bool) (*nodev1.Exec, error) {
	// It may have written the end between the first read and its death.
	again, end, err := w.files()
	if err != nil {
		return nil, err
	}
	if end != nil {
		return w.fromEnd(end, nil), nil
	}
	if !started && !again {
		return w.end(nodev1.EndReason_END_REASON_NOT_STARTED, nil), nil
	}
	one, err := w.s.jails.Get(ctx, w.rec.GetSpec().GetJailId())
	switch {
	case fault.Is(err, fault.NotFound):
		return w.end(nodev1.EndReason_END_REASON_KILLED, func(e *nodev1.Exec) { e.KilledBy = "the jail was removed" }), nil
	case err != nil:
		return nil, err
	case one.GetState() == nodev1.JailState_JAIL_STATE_STOPPED:
		return w.end(nodev1.EndReason_END_REASON_KILLED, func(e *nodev1.Exec) { e.KilledBy = "the jail was stopped" }), nil
	}
	return w.end(nodev1.EndReason_END_REASON_JAIL_LOST, nil), nil
}

// end returns an end that the daemon itself determined.
func (w *watch) end(why nodev1.EndReason, more func(*nodev1.Exec)) *nodev1.Exec {
	out := proto.CloneOf(w.exec())
	out.State, out.EndReason, out.EndedAt = nodev1.ExecState_EXEC_STATE_ENDED, why, timestamppb.Now()
	out.LogBytes = w.logBytes()
	if more != nil {
		more(out)
	}
	return out
}

func (w *watch) logBytes() int64 {
	log, err := w.s.openLog(w.rec.GetSpec())
	if err != nil {
		return 0
	}
	defer log.Close()
	size, err := log.Size()
	if err != nil {
		return 0
	}
	return size
}

// maxStatus limits how many bytes of a status are read: it holds a few numbers
// and lines.
const maxStatus = 1 << 20

// files returns what init wrote about an exec: whether it was started, that is,
// whether it has a folder, and its end, or nil if there is none.
func (w *watch) files() (started bool, end *initv1.Status, err error) {
	spec := w.rec.GetSpec()
	dir, err := w.s.jails.OpenExec(spec.GetJailId(), spec.GetExecId())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	defer dir.Close()
	f, err := dir.OpenFile(initd.ExitFile, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil, nil
	}
	if err != nil {
		return true, nil, fmt.Errorf("read the end of %s: %w", spec.GetExecId(), err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxStatus))
	if err != nil {
		return true, nil, fmt.Errorf("read the end of %s: %w", spec.GetExecId(), err)
	}
	end = &initv1.Status{}
	if err := proto.Unmarshal(raw, end); err != nil || !end.GetEnded() {
		return true, nil, nil // not one of init's: as good as none
	}
	return true, end, nil
}

// refresh asks init for the state of a running exec. If init cannot be asked,
// the known state remains.
func (w *watch) refresh(ctx context.Context) {
	w.mu.Lock()
	conn, running := w.conn, w.now.GetState() == nodev1.ExecState_EXEC_STATE_RUNNING
	w.mu.Unlock()
	if conn == nil || !running {
		return
	}
	resp, err := conn.Wait(ctx, &initv1.WaitRequest{ExecId: w.rec.GetSpec().GetExecId(), TimeoutMs: -1})
	if err == nil && !resp.GetStatus().GetEnded() {
		w.set(fromStatus(w.rec, resp.GetStatus()), conn)
	}
}

// kill ends the whole tree and returns when it has ended.
func (w *watch) kill(ctx context.Context, by string) (*nodev1.Exec, error) {
	w.mu.Lock()
	conn, running := w.conn, w.now.GetState() == nodev1.ExecState_EXEC_STATE_RUNNING
	w.mu.Unlock()
	var tree []jail.Process
	if conn != nil && running {
		tree = w.killFrozen(ctx, conn, by)
		resp, err := conn.Kill(ctx, &initv1.KillRequest{ExecId: w.rec.GetSpec().GetExecId(), By: by})
		if err == nil && !resp.GetStatus().GetEnded() {
			return fromStatus(w.rec, resp.GetStatus()), nil
		}
	}
	// The exec has ended or its init has died: the watch finds out which.
	if err := w.await(ctx, w.done); err != nil {
		return nil, err
	}
	out := w.exec()
	if left := jail.StillThere(tree); left > out.GetMembersLeft() {
		out = proto.CloneOf(out)
		out.MembersLeft = left
	}
	return out, nil
}
