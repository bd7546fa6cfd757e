package exec

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/node/egress"
	"github.com/deckhand-sh/deckhand/node/initd"
	"github.com/deckhand-sh/deckhand/node/jail"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// request returns the request with which init starts an exec. Its environment is
// the image's, then that of the way out, then its own; init puts its defaults
// before them.
func (s *Service) request(spec *nodev1.ExecSpec, conn *jail.Init) *initv1.StartRequest {
	uid, gid := conn.User()
	timeout := defaultTimeout
	if spec.Timeout != nil {
		timeout = spec.GetTimeout().AsDuration()
	}
	if until := spec.GetHostLock().GetExpiresAt(); until != nil {
		timeout = min(timeout, time.Until(until.AsTime()))
	}
	if named, group, err := parseUser(spec.GetUser()); err == nil && named != 0 {
		uid, gid = named, group
	}
	env := spec.GetEnv()
	if conn.Proxied {
		env = egress.Environment(spec.GetExecId(), conn.Egress(), env)
	}
	env = initd.MergeEnv(conn.Env, env)
	return &initv1.StartRequest{
		ExecId: spec.GetExecId(), Argv: argv(spec, conn), Env: env, Dir: spec.GetDir(),
		Uid: uid, Gid: gid, TimeoutMs: max(1, timeout.Milliseconds()),
		Stdin: spec.GetStdin(), StdinOpen: spec.GetStdinOpen(),
		PtyRows: spec.GetPty().GetRows(), PtyCols: spec.GetPty().GetCols(),
		OfflineGraceMs: s.contact.grace(spec).Milliseconds(), OutputLimit: s.outputLimit(spec),
	}
}

// argv returns the program and arguments of an exec. A command line is run by the
// shell that the jail's image has, or without one; nil if it cannot be.
func argv(spec *nodev1.ExecSpec, conn *jail.Init) []string {
	if spec.Shell == nil || conn.Image == "" {
		return spec.GetArgv()
	}
	if conn.Shell == "" {
		return spec.GetShell().GetPlainArgv()
	}
	return append([]string{conn.Shell}, spec.GetArgv()[1:]...)
}

// outputLimit returns the amount of output after which a command is killed: the
// node's limit, or the exec's own if it is lower.
func (s *Service) outputLimit(spec *nodev1.ExecSpec) int64 {
	if own := spec.GetOutputLimitBytes(); own > 0 {
		return min(own, s.output)
	}
	return s.output
}

// fromStatus returns an exec with the state that init reports.
func fromStatus(rec *nodev1.ExecRecord, st *initv1.Status) *nodev1.Exec {
	out := &nodev1.Exec{
		ExecId: rec.GetSpec().GetExecId(), JailId: rec.GetSpec().GetJailId(),
		State: nodev1.ExecState_EXEC_STATE_RUNNING, CreatedAt: rec.GetCreatedAt(),
		StartedAt: at(st.GetStartedAt()), LogBytes: st.GetLogBytes(), MembersLeft: st.GetMembersLeft(),
		LeaderExited: st.GetLeaderExited(), ExitCode: st.GetExitCode(), Signal: st.GetSignal(),
		KilledBy: st.GetKilledBy(), StartError: st.GetStartError(),
		LogDroppedBytes: st.GetLogDropped(), StdinBytes: st.GetStdinBytes(),
	}
	if st.GetEnded() {
		out.State, out.EndReason, out.EndedAt = nodev1.ExecState_EXEC_STATE_ENDED, reason(st), at(st.GetEndedAt())
	}
	return out
}

// reason returns why a command ended, as far as init knows.
func reason(st *initv1.Status) nodev1.EndReason {
	switch {
	case st.GetStartError() != "":
		return nodev1.EndReason_END_REASON_START_FAILED
	case st.GetTimedOut():
		return nodev1.EndReason_END_REASON_TIMED_OUT
	case st.GetOutputLimit():
		return nodev1.EndReason_END_REASON_OUTPUT_LIMIT
	case st.GetKilledBy() != "":
		return nodev1.EndReason_END_REASON_KILLED
	case st.GetLogError() != "":
		return nodev1.EndReason_END_REASON_DISK_FULL
	case st.GetSignal() != 0:
		return nodev1.EndReason_END_REASON_SIGNALLED
	}
	return nodev1.EndReason_END_REASON_EXITED
}

func at(nanos int64) *timestamppb.Timestamp {
	if nanos == 0 {
		return nil
	}
	return timestamppb.New(time.Unix(0, nanos))
}
