package exec

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/jail"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// freezePatience limits how long a kill waits for its jail to be frozen.
const freezePatience = 500 * time.Millisecond

// killFrozen kills an exec's process tree while its jail is frozen, so that no
// process can escape by forking. It returns the killed processes. If the jail
// cannot be frozen, init kills the tree in rounds; init waits for its end in
// either case.
func (w *watch) killFrozen(ctx context.Context, conn *jail.Init, by string) []jail.Process {
	if conn.OwnKernel {
		return nil // init kills it
	}
	spec := w.rec.GetSpec()
	noted, err := conn.Kill(ctx, &initv1.KillRequest{ExecId: spec.GetExecId(), By: by, NoteOnly: true})
	if err != nil || noted.GetStatus().GetEnded() || noted.GetStatus().GetStubPid() == 0 {
		return nil
	}
	freezing, cancel := context.WithTimeout(ctx, freezePatience)
	defer cancel()
	thaw, err := w.s.jails.Freeze(freezing, spec.GetJailId())
	if err != nil {
		w.s.log.Debug("a jail cannot be frozen for a kill", "jail_id", spec.GetJailId(), "error", err)
		return nil
	}
	defer func() {
		if err := thaw(); err != nil {
			w.s.log.Error("thaw a jail after a kill", "jail_id", spec.GetJailId(), "error", err)
		}
	}()
	all, err := w.s.jails.Processes(ctx, spec.GetJailId())
	if err != nil {
		w.s.log.Warn("list a jail's processes for a kill", "jail_id", spec.GetJailId(), "error", err)
		return nil
	}
	stub, tree := jail.TreeBelow(all, int(noted.GetStatus().GetStubPid()))
	for _, p := range tree {
		_ = unix.Kill(p.PID, unix.SIGKILL)
	}
	// If the jail is kept frozen, only the killed processes are thawed.
	if err := w.s.jails.LetGo(spec.GetJailId(), append(tree, stub)); err != nil {
		w.s.log.Warn("thaw killed processes of a frozen jail", "jail_id", spec.GetJailId(), "error", err)
	}
	return tree
}

// bury records an exec that was never requested as killed, so that it never
// starts: the request to kill it arrived before the request to start it.
func (s *Service) bury(ctx context.Context, req *nodev1.KillExecRequest) (*nodev1.ExecRecord, error) {
	if !execID.MatchString(req.GetExecId()) {
		return nil, fault.New(fault.NotFound, "no exec %q on this node", req.GetExecId()).WithObject(req.GetExecId())
	}
	by := req.GetBy()
	if by == "" {
		by = "unknown"
	}
	rec, existed, err := s.ledger.BuryExec(ctx, &nodev1.Exec{
		ExecId: req.GetExecId(), State: nodev1.ExecState_EXEC_STATE_ENDED,
		EndReason: nodev1.EndReason_END_REASON_KILLED, KilledBy: by, StartError: killedBefore,
	})
	if err == nil && !existed {
		s.log.Info("an exec was killed before it started", "exec_id", req.GetExecId(), "by", by)
	}
	return rec, err
}

// killedBefore is the start_error of an exec that was killed before it was
// requested.
const killedBefore = "killed before it started"
