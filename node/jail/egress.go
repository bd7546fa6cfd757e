package jail

import (
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// The way out of a jail is a socket beside that of its init, which the node's
// egress proxy listens on, and ports of the jail's loopback that init leads
// there.

// Egress lets jails out. *egress.Proxy and *process.Process are two.
type Egress interface {
	// Serve takes the connections of a jail as its rules allow, until Leave.
	Serve(id string, l net.Listener, rules *nodev1.Egress) error
	// Change gives a jail other rules.
	Change(id string, rules *nodev1.Egress) error
	// Cut ends every connection of a jail, and refuses new ones until Resume.
	Cut(id, why string)
	Resume(id string)
	Leave(id string)
}

// ways is the number of init's protocol from which on it leads ports out.
const ways = 4

func (m *Manager) transport(p paths, rec *nodev1.JailRecord) transport {
	if classes[rec.GetSpec().GetRuntime()].ownKernel {
		return &pipes{m: m, container: rec.GetContainerId(), dir: p.bridge, log: p.log}
	}
	return sockets{state: p.state}
}

// openWay gives a running jail its way out. A jail without one continues: its
// commands reach nothing, as those of one that nothing is allowed to.
func (m *Manager) openWay(ctx context.Context, rec *nodev1.JailRecord, conn *Init) {
	id := rec.GetSpec().GetJailId()
	if m.cfg.Egress == nil || id == HostID || conn.protocol < ways {
		return
	}
	l, err := conn.link.listen()
	if err == nil {
		err = m.cfg.Egress.Serve(id, l, rec.GetSpec().GetEgress())
	}
	if err == nil {
		err = m.lead(ctx, rec.GetSpec(), conn)
	}
	if err != nil {
		m.cfg.Log.Error("a jail has no way out", "jail_id", id, "error", err)
		return
	}
	conn.Proxied = true
}

// changeWay puts a jail's egress in force as it runs.
func (m *Manager) changeWay(ctx context.Context, spec *nodev1.JailSpec, conn *Init) error {
	if m.cfg.Egress == nil || !conn.Proxied {
		return nil
	}
	if err := m.cfg.Egress.Change(spec.GetJailId(), spec.GetEgress()); err != nil {
		return err
	}
	m.cfg.Log.Info("changed the egress rules of a jail", "jail_id", spec.GetJailId(), "rules", len(spec.GetEgress().GetRules()))
	return m.lead(ctx, spec, conn)
}

// lead has init lead the ports out that a spec names.
func (m *Manager) lead(ctx context.Context, spec *nodev1.JailSpec, conn *Init) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	req := &initv1.ForwardRequest{Ports: []*initv1.ForwardRequest_Port{{Listen: allowlist.ProxyPort}}}
	for _, f := range spec.GetEgress().GetForwards() {
		req.Ports = append(req.Ports, &initv1.ForwardRequest_Port{
			Listen: f.GetListen(), Target: net.JoinHostPort(f.GetHost(), strconv.Itoa(int(f.GetPort()))),
		})
	}
	res, err := conn.Forward(ctx, req)
	if err != nil {
		return err
	}
	if problems := res.GetProblems(); len(problems) > 0 {
		// Of a command that listens there already, for example.
		m.cfg.Log.Warn("ports of a jail cannot be led out", "jail_id", spec.GetJailId(), "problems", strings.Join(problems, "; "))
	}
	return nil
}

// barWay lets nothing out of a jail that is frozen or being killed, and closes
// open connections. The proxy may take long to do so: the caller does not hold
// Manager.mu, so that other jails are not waited for. Of several changes at
// once, the last one holds.
func (m *Manager) barWay(e *entry) {
	if m.cfg.Egress == nil {
		return
	}
	e.barring.Lock()
	defer e.barring.Unlock()
	m.mu.Lock()
	killing, frozen := e.killing, len(e.holders) > 0
	m.mu.Unlock()
	switch {
	case killing:
		m.cfg.Egress.Cut(e.id, "everything in this jail is being killed")
	case frozen:
		m.cfg.Egress.Cut(e.id, "this jail is frozen")
	default:
		m.cfg.Egress.Resume(e.id)
	}
}
