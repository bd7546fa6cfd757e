package exec

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/node/jail"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// usage returns what the processes of a running command use; nil if it has just ended.
func (s *Service) usage(ctx context.Context, rec *nodev1.ExecRecord) *nodev1.ExecUsage {
	w, err := s.watching(ctx, rec)
	if err != nil {
		return nil
	}
	w.mu.Lock()
	conn := w.conn
	w.mu.Unlock()
	if conn == nil {
		return nil
	}
	spec := rec.GetSpec()
	if conn.OwnKernel {
		u, err := conn.Usage(ctx, &initv1.UsageRequest{ExecId: spec.GetExecId()})
		if err != nil {
			return nil
		}
		return &nodev1.ExecUsage{CpuTime: durationpb.New(time.Duration(u.GetCpuNs())), MemoryBytes: u.GetMemoryBytes(), Processes: u.GetProcesses()}
	}
	resp, err := conn.Wait(ctx, &initv1.WaitRequest{ExecId: spec.GetExecId(), TimeoutMs: -1})
	if err != nil || resp.GetStatus().GetStubPid() == 0 {
		return nil
	}
	all, err := s.jails.Processes(ctx, spec.GetJailId())
	if err != nil {
		s.log.Debug("cannot list a jail's processes to measure a command", "jail_id", spec.GetJailId(), "error", err)
		return nil
	}
	_, tree := jail.TreeBelow(all, int(resp.GetStatus().GetStubPid()))
	u := jail.UsageOf(tree)
	return &nodev1.ExecUsage{CpuTime: durationpb.New(u.CPU), MemoryBytes: u.Memory, Processes: int32(u.Processes)}
}
