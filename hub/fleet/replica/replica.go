// Package replica stores the hub processes that run, each with the address at which the
// others reach its edge, so that a call for a node is forwarded to the one that has the
// node's link. Replica registers this process and locates others.
//
// A process updates its row every few seconds and deletes it when it stops. A row that
// was not updated belongs to a process that died: calls to its nodes fail with "not
// connected" until the node has dialled another replica.
package replica

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/version"
)

// Config describes this process.
type Config struct {
	Store *store.Store
	// ID names this process among all that ever were.
	ID string
	// Address is the host:port of this process's edge, as other replicas reach
	// it.
	Address string
	// Interval is how often the row is touched.
	Interval time.Duration
	// StaleAfter is when a row that was not touched counts as a dead process's.
	StaleAfter time.Duration
	Log        hclog.Logger
}

// Replica is this process among the others. It is a lifecycle.Service.
type Replica struct {
	lifecycle.Runner

	cfg Config
}

var _ edge.Locator = (*Replica)(nil)

// New creates a Replica.
func New(cfg Config) *Replica { return &Replica{cfg: cfg} }

// storeTimeout bounds each write of the row.
const storeTimeout = 10 * time.Second

// Start registers the process, and returns when it is registered.
func (r *Replica) Start(ctx context.Context) error {
	if err := r.touch(ctx); err != nil {
		return err
	}
	return r.Run(ctx, func(ctx context.Context) error {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
			defer cancel()
			if err := r.cfg.Store.DeleteReplica(ctx, r.cfg.ID); err != nil {
				r.cfg.Log.Warn("cannot record that this hub stops; the others will detect it", "error", err)
			}
		}()
		ticker := time.NewTicker(r.cfg.Interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			if err := r.touch(ctx); err != nil && ctx.Err() == nil {
				r.cfg.Log.Warn("cannot record that this hub is alive; will try again", "error", err)
			}
		}
	})
}

func (r *Replica) touch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := r.cfg.Store.TouchReplica(ctx, db.TouchReplicaParams{ID: r.cfg.ID, Address: r.cfg.Address, Version: version.Version})
	if err != nil {
		return fmt.Errorf("record that hub %s lives: %w", r.cfg.ID, err)
	}
	return nil
}

// Locate returns where a node's link is.
func (r *Replica) Locate(ctx context.Context, nodeID string) (edge.ReplicaLocation, error) {
	row, err := r.cfg.Store.LocateNode(ctx, db.LocateNodeParams{NodeID: nodeID, StaleAfter: r.cfg.StaleAfter})
	if store.IsNotFound(err) {
		return edge.ReplicaLocation{}, fault.New(fault.NotFound, "no hub holds a link to node %s", nodeID).WithObject(nodeID)
	}
	if err != nil {
		return edge.ReplicaLocation{}, fmt.Errorf("find the hub that holds node %s: %w", nodeID, err)
	}
	return edge.ReplicaLocation{Replica: row.ID, Address: row.Address, Epoch: row.Epoch}, nil
}

// Forget deletes the rows of processes that died; the leader does it now and
// then.
func (r *Replica) Forget(ctx context.Context) error {
	if _, err := r.cfg.Store.DeleteStaleReplicas(ctx, 10*r.cfg.StaleAfter); err != nil {
		return fmt.Errorf("forget hubs that died: %w", err)
	}
	return nil
}

// Reachable returns a listener's address as another machine may reach it: one
// that listens on every interface is named by the first address of this machine
// that is not loopback.
func Reachable(listening net.Addr) string {
	tcp, ok := listening.(*net.TCPAddr)
	if !ok {
		return listening.String()
	}
	ip := tcp.IP
	if ip.IsUnspecified() {
		ip = ownIP()
	}
	return net.JoinHostPort(ip.String(), fmt.Sprint(tcp.Port))
}

func ownIP() net.IP {
	addresses, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addresses {
			if ipNet, ok := a.(*net.IPNet); ok && ipNet.IP.IsGlobalUnicast() {
				return ipNet.IP
			}
		}
	}
	return net.IPv4(127, 0, 0, 1)
}
