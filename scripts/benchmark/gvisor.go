package main

import (
	"context"
	"fmt"
	osexec "os/exec"
	"path/filepath"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/ident"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// shimRoot is where the shim keeps the containers of runc, and of what is called in
// its place, by namespace.
const shimRoot = "/run/containerd/runc"

// gvisorExec measures one command in a warm gVisor jail, through the node's API and
// with its record, against `runsc exec` in the same jail, with the same flags.
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
	out["p95"], out["peer_p95"] = percentile(a, 95), percentile(b, 95)
	return out, nil
}
