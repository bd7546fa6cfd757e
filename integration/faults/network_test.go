package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// network is a switch with its hosts, all in namespaces that the test made.
type network struct {
	t     testing.TB
	tag   string // makes the names unique on this machine
	hosts int
}

// newNetwork makes the switch.
func newNetwork(t testing.TB) *network {
	t.Helper()
	n := &network{t: t, tag: fmt.Sprintf("dh%x-%d", os.Getpid(), serial.Add(1))}
	n.namespace(n.tag)
	n.ip("-n", n.tag, "link", "add", "br0", "type", "bridge")
	n.ip("-n", n.tag, "link", "set", "br0", "up")
	return n
}

func (n *network) namespace(name string) {
	n.ip("netns", "add", name)
	n.t.Cleanup(func() { n.ip("netns", "delete", name) })
	n.ip("-n", name, "link", "set", "lo", "up")
}

// host makes a host with a cable to the switch.
func (n *network) host() *host {
	n.t.Helper()
	n.hosts++
	h := &host{
		name: fmt.Sprintf("%s-%d", n.tag, n.hosts), ip: fmt.Sprintf("10.77.0.%d", n.hosts),
		port: fmt.Sprintf("p%d", n.hosts), network: n,
	}
	n.namespace(h.name)
	n.ip("-n", n.tag, "link", "add", h.port, "type", "veth", "peer", "name", "eth0", "netns", h.name)
	n.ip("-n", n.tag, "link", "set", h.port, "master", "br0", "up")
	n.ip("-n", h.name, "addr", "add", h.ip+"/24", "dev", "eth0")
	n.ip("-n", h.name, "link", "set", "eth0", "up")
	return h
}

// cut pulls the host's cable, or puts it back.
func (h *host) cut(cut bool) {
	h.network.ip("-n", h.network.tag, "link", "set", h.port, map[bool]string{true: "down", false: "up"}[cut])
}

func (n *network) ip(args ...string) {
	out, err := exec.Command("ip", args...).CombinedOutput()
	require.NoError(n.t, err, "ip %v: %s", args, out)
}

// balancer passes TCP connections to one port of its host on to the same port
// of those hubs that take them, in turn. It knows nothing of what passes.
type balancer struct {
	on   *host
	hubs []*host
	next atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu; nil once it is closed
	wg    sync.WaitGroup
}

func newBalancer(t testing.TB, on *host, hubs []*host, ports ...string) {
	t.Helper()
	b := &balancer{on: on, hubs: hubs, conns: map[net.Conn]bool{}}
	var listeners []net.Listener
	for _, port := range ports {
		l, err := on.listen(net.JoinHostPort(on.ip, port))
		require.NoError(t, err)
		listeners = append(listeners, l)
		b.wg.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				b.wg.Go(func() { b.pass(conn, port) })
			}
		})
	}
	t.Cleanup(func() {
		for _, l := range listeners {
			_ = l.Close()
		}
		b.mu.Lock()
		for conn := range b.conns {
			_ = conn.Close()
		}
		b.conns = nil
		b.mu.Unlock()
		b.wg.Wait()
	})
}

// keep notes a connection for the balancer's end; false once that has come.
func (b *balancer) keep(conn net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conns == nil {
		_ = conn.Close()
		return false
	}
	b.conns[conn] = true
	return true
}

func (b *balancer) drop(conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = conn.Close()
	delete(b.conns, conn)
}

func (b *balancer) pass(near net.Conn, port string) {
	if !b.keep(near) {
		return
	}
	defer b.drop(near)
	first := int(b.next.Add(1))
	for i := range b.hubs {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		far, err := b.on.dial(ctx, "tcp", net.JoinHostPort(b.hubs[(first+i)%len(b.hubs)].ip, port))
		cancel()
		if err != nil {
			continue
		}
		if !b.keep(far) {
			return
		}
		defer b.drop(far)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(far, near) // ends when either side does
			_ = far.Close()
		}()
		_, _ = io.Copy(near, far)
		_ = near.Close()
		<-done
		return
	}
}
