package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/prometheus/procfs"

	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// listening is the state of a socket that listens, in /proc/net/tcp.
const listening = 0x0A

// Ports returns the TCP ports that a jail's processes listen on, in order; none if it is
// not running.
func (m *Manager) Ports(ctx context.Context, id string) ([]uint32, error) {
	one, err := m.Get(ctx, id)
	if err != nil || one.GetState() != nodev1.JailState_JAIL_STATE_RUNNING {
		return nil, err
	}
	if conn, err := m.Init(ctx, id); err != nil {
		return nil, err
	} else if conn.OwnKernel {
		ports, err := conn.Ports(ctx, &initv1.PortsRequest{})
		if err != nil {
			return nil, fmt.Errorf("list the ports of jail %s: %w", id, err)
		}
		return ports.GetTcp(), nil
	}
	// The files of a process show the network of its namespace.
	fs, err := procfs.NewFS(filepath.Join(procfs.DefaultMountPoint, strconv.Itoa(int(one.GetPid()))))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // it has just ended
	}
	if err != nil {
		return nil, fmt.Errorf("read the sockets of jail %s: %w", id, err)
	}
	var out []uint32
	//nolint:staticcheck // what is recommended in its place would have to enter the jail's network
	for _, read := range []func() (procfs.NetTCP, error){fs.NetTCP, fs.NetTCP6} {
		sockets, err := read()
		if errors.Is(err, os.ErrNotExist) {
			continue // no such family, or it has just ended
		}
		if err != nil {
			return nil, fmt.Errorf("read the sockets of jail %s: %w", id, err)
		}
		for _, socket := range sockets {
			if socket.St == listening {
				out = append(out, uint32(socket.LocalPort)) //nolint:gosec // 16 bits
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
