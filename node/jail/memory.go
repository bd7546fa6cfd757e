package jail

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/containerd/v2/client"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/protobuf/proto"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// change applies the changes of a spec that are possible while a jail runs, if
// it has no others, and records them: more memory, and different egress. It
// returns false if the jail must be made again. The memory of a running jail is
// never reduced: the kernel would refuse, or kill processes.
func (m *Manager) change(ctx context.Context, p paths, rec *nodev1.JailRecord, spec *nodev1.JailSpec, conn *Init) (bool, error) {
	before := rec.GetSpec()
	same := proto.CloneOf(before)
	same.MemoryBytes, same.Egress = spec.GetMemoryBytes(), spec.GetEgress()
	if startsTrust(before, spec) || spec.GetJailId() == HostID || !proto.Equal(same, spec) || spec.GetMemoryBytes() < before.GetMemoryBytes() {
		return false, nil
	}
	if spec.GetMemoryBytes() > before.GetMemoryBytes() {
		if err := m.limit(m.namespaced(ctx), spec); err != nil {
			m.cfg.Log.Warn("cannot raise a running jail's memory; it is made again if nothing runs in it", "jail_id", spec.GetJailId(), "error", err)
			return false, nil
		}
		m.cfg.Log.Info("raised a jail's memory", "jail_id", spec.GetJailId(), "memory_bytes", spec.GetMemoryBytes())
	}
	// A daemon that dies before this does both again.
	rec.Spec = spec
	if err := m.writeRecord(p.record, rec); err != nil {
		return false, err
	}
	if !proto.Equal(before.GetEgress(), spec.GetEgress()) {
		if err := updateTrust(p, spec); err != nil {
			return false, err
		}
		if err := m.changeWay(ctx, spec, conn); err != nil {
			return false, err
		}
		conn.egress.Store(spec.GetEgress())
	}
	return true, nil
}

// limit puts a spec's limits on the running jail: all of them, since a runtime
// may take what is left out for none.
func (m *Manager) limit(ctx context.Context, spec *nodev1.JailSpec) error {
	ctr, err := m.container(ctx, spec.GetJailId())
	if err != nil {
		return err
	}
	if ctr == nil {
		return errors.New("it has no container")
	}
	task, err := ctr.Task(ctx, nil)
	if err != nil {
		return fmt.Errorf("load the task: %w", err)
	}
	made, err := ctr.Spec(ctx)
	if err != nil {
		return fmt.Errorf("load the spec: %w", err)
	}
	limits := &specs.LinuxResources{}
	if made.Linux != nil && made.Linux.Resources != nil {
		limits.CPU, limits.Pids = made.Linux.Resources.CPU, made.Linux.Resources.Pids
	}
	memory := spec.GetMemoryBytes()
	limits.Memory = &specs.LinuxMemory{Limit: &memory}
	if swapAccounted() {
		limits.Memory.Swap = &memory
	}
	if err := task.Update(ctx, client.WithResources(limits)); err != nil {
		return fmt.Errorf("update the task: %w", err)
	}
	return nil
}
