package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	osexec "os/exec"
	"path/filepath"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/ident"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// shimRoot is where the shim keeps the containers of runc, and of what is called in
// its place, by namespace.
const shimRoot = "/run/containerd/runc"

// spawns starts a command 100 times as fast as a program can, which is without a copy of
// its memory, and prints the median in milliseconds.
const spawns = `import os, time
took = []
for i in range(100):
    begin = time.monotonic()
    os.waitpid(os.posix_spawn("/usr/bin/true", ["true"], {}), 0)
    took.append(time.monotonic() - begin)
print("%.3f" % (sorted(took)[50] * 1000), flush=True)`

// gvisorExec measures one command in a warm gVisor jail, through the node's API and
// with its record, against `runsc exec` in the same jail, with the same flags. The floor
// is what gVisor itself takes to start and end that command from a program in the jail,
// which no way to start commands can go below.
func gvisorExec(ctx context.Context) (_ result, err error) {
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	id := ident.New("jail")
	if _, err := m.jails.Ensure(ctx, &nodev1.JailSpec{JailId: id, Rootfs: "host", Runtime: "runsc", WorkspaceBytes: 1 << 30}); err != nil {
		return nil, err
	}
	runsc := filepath.Join(m.dir, "node", "runtime", "runsc")
	root := "--root=" + filepath.Join(shimRoot, m.namespace)
	listed, err := osexec.CommandContext(ctx, runsc, root, "list", "-quiet").Output()
	container := strings.TrimSpace(string(listed))
	if err != nil || strings.Count(container, "\n") > 0 || container == "" {
		return nil, fmt.Errorf("find the jail's container in %q: %w", listed, err)
	}
	const n = 100
	a, b, err := pair(n,
		func() error { _, err := m.run(ctx, id, "/usr/bin/true"); return err },
		func() error {
			out, err := osexec.CommandContext(ctx, runsc, root, "exec", "-user=1000:1000", container, "/usr/bin/true").CombinedOutput()
			if err != nil {
				return fmt.Errorf("runsc exec: %w: %s", err, out)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	out := compared("ms", percentile(a, 50), percentile(b, 50), "runsc exec", n)
	e, err := m.run(ctx, id, "/usr/bin/python3", "-c", spawns)
	if err != nil {
		return nil, err
	}
	floor, err := m.floor(ctx, e.GetExecId())
	if err != nil {
		return nil, err
	}
	out["floor"], out["floor_ratio"] = floor, floor/percentile(b, 50)
	out["p95"], out["peer_p95"] = percentile(a, 95), percentile(b, 95)
	return out, nil
}

// floor returns the number that a command has written.
func (m *nodeRig) floor(ctx context.Context, execID string) (ms float64, err error) {
	stream, err := m.exec.ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: execID})
	if err != nil {
		return 0, err
	}
	var text []byte
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		text = append(text, piece.GetData()...)
	}
	_, err = fmt.Sscan(string(text), &ms)
	return ms, err
}
