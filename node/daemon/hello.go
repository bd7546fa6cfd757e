package daemon

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/version"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// hello describes this node at the beginning of a session. A containerd that is
// down costs the list of jails and not the session: what runs continues, and
// can be watched and killed.
func (d *Daemon) hello(ctx context.Context) (*nodev1.SessionResponse_Hello, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the host name: %w", err)
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil, fmt.Errorf("read the machine's memory: %w", err)
	}
	out := &nodev1.SessionResponse_Hello{
		Version:     version.Version,
		Capability:  nodelink.Capability,
		Labels:      d.cfg.Labels,
		Runtimes:    d.jails.Runtimes(),
		Cpus:        int32(runtime.NumCPU()),
		MemoryBytes: int64(info.Totalram) * int64(info.Unit),
		Hostname:    host,
		BootId:      d.ledger.BootID(),
		Draining:    d.jails.Drain().Draining,
		Skills:      d.helloSkills(),
	}
	if d.upgrades != nil {
		out.Upgrade = d.upgrades.Last()
	}
	if out.Jails, err = d.jails.List(ctx); err != nil {
		d.cfg.Log.Warn("cannot list the jails for the hub", "error", err)
	}
	execs, err := d.execs.ListExecs(ctx, &nodev1.ListExecsRequest{LiveOnly: true})
	if err != nil {
		d.cfg.Log.Warn("cannot list the execs for the hub", "error", err)
	}
	out.Execs = execs.GetExecs()
	return out, nil
}
