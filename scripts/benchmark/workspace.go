package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/ident"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	treeFiles   = 50_000
	treeBytes   = 1 << 30
	treeChanged = 10
	treeRounds  = 15
)

// tree is a jail's workspace that git looks after as well. Git's own folder is
// beside ours on the same disk, so that neither has to look at the other's.
type tree struct {
	m      *nodeRig
	jailID string
	dir    string
	files  []string // that are changed
	round  int
}

func (m *nodeRig) tree(ctx context.Context) (*tree, error) {
	t := &tree{m: m, jailID: ident.New("jail")}
	if _, err := m.jails.Ensure(ctx, &nodev1.JailSpec{JailId: t.jailID, Rootfs: "host", WorkspaceBytes: 4 << 30}); err != nil {
		return nil, err
	}
	var err error
	if t.dir, err = m.jails.Workspace(t.jailID); err != nil {
		return nil, err
	}
	if err := m.snapshots.Begin(ctx, t.jailID, "step_fill", true); err != nil {
		return nil, err
	}
	if err := fill(t.dir, treeFiles, treeBytes/treeFiles); err != nil {
		return nil, err
	}
	if end := m.snapshots.End(ctx, t.jailID, "step_fill", true); end.GetError() != "" {
		return nil, errors.New(end.GetError())
	}
	for i := range treeChanged {
		t.files = append(t.files, name(i*(treeFiles/treeChanged)))
	}
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.name", "b"}, {"config", "user.email", "b@b"}, {"config", "gc.auto", "0"}} {
		if err := t.git(ctx, args...); err != nil {
			return nil, err
		}
	}
	return t, t.commit(ctx)
}

// fill makes files of a size, a hundred in a folder, each with content of its
// own.
func fill(dir string, files, size int) error {
	content := make([]byte, size)
	for i := range files {
		at := filepath.Join(dir, name(i))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		copy(content, fmt.Sprintf("file %d\n", i))
		if err := os.WriteFile(at, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func name(i int) string {
	return filepath.Join(fmt.Sprintf("d%d", i/5000), fmt.Sprintf("e%d", i/100), fmt.Sprintf("f%d", i))
}

func (t *tree) git(ctx context.Context, args ...string) error {
	cmd := osexec.CommandContext(ctx, "git", args...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "GIT_DIR="+filepath.Join(t.m.dir, "git"), "GIT_WORK_TREE="+t.dir, "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %v: %w: %s", args, err, out)
	}
	return nil
}

func (t *tree) commit(ctx context.Context) error {
	if err := t.git(ctx, "add", "-A"); err != nil {
		return err
	}
	return t.git(ctx, "commit", "-q", "--allow-empty", "-m", "state")
}

// change rewrites the files that are changed.
func (t *tree) change(content string) error {
	for i, file := range t.files {
		if err := os.WriteFile(filepath.Join(t.dir, file), fmt.Appendf(nil, "%s %d %d\n%20000d", content, t.round, i, i), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func timed(fn func() error) (time.Duration, error) {
	begin := time.Now()
	err := fn()
	return time.Since(begin), err
}

// step changes the files and records that as a step, and as a commit.
func (t *tree) step(ctx context.Context) (id string, ours, git time.Duration, err error) {
	t.round++
	id = ident.New("step")
	if err := t.m.snapshots.Begin(ctx, t.jailID, id, true); err != nil {
		return id, 0, 0, err
	}
	if err := t.change("changed"); err != nil {
		return id, 0, 0, err
	}
	ours, err = timed(func() error {
		end := t.m.snapshots.End(ctx, t.jailID, id, true)
		if end.GetError() != "" || end.GetFiles() != treeChanged {
			return fmt.Errorf("the look found %d changes, %s", end.GetFiles(), end.GetError())
		}
		return nil
	})
	if err != nil {
		return id, 0, 0, err
	}
	git, err = timed(func() error { return t.commit(ctx) })
	return id, ours, git, err
}

// snapshotTree measures a look at 50 000 files of which 10 changed against a
// commit of the same.
func snapshotTree(ctx context.Context) (result, error) {
	return overTree(ctx, "git add -A && git commit", func(t *tree) (time.Duration, time.Duration, error) {
		_, ours, git, err := t.step(ctx)
		return ours, git, err
	})
}

// undoTree measures those 10 files given back against a checkout of them.
func undoTree(ctx context.Context) (result, error) {
	return overTree(ctx, "git checkout", func(t *tree) (time.Duration, time.Duration, error) {
		id, _, _, err := t.step(ctx)
		if err != nil {
			return 0, 0, err
		}
		ours, err := timed(func() error {
			out, err := t.m.snapshots.UndoChanges(ctx, &nodev1.UndoChangesRequest{
				JailId: t.jailID, OperationId: ident.New("undo"), Range: &nodev1.ChangeRange{By: []string{id}},
			})
			if err == nil && (!out.GetApplied() || out.GetFiles() != treeChanged) {
				err = fmt.Errorf("the undo gave back %d files: %v", out.GetFiles(), out.GetConflicts())
			}
			return err
		})
		if err != nil {
			return 0, 0, err
		}
		// The files as git has them, so that it has as much to give back.
		if err := t.change("changed"); err != nil {
			return 0, 0, err
		}
		git, err := timed(func() error { return t.git(ctx, append([]string{"checkout", "HEAD~1", "--"}, t.files...)...) })
		return ours, git, err
	})
}

func overTree(ctx context.Context, peer string, round func(t *tree) (ours, git time.Duration, err error)) (_ result, err error) {
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	t, err := m.tree(ctx)
	if err != nil {
		return nil, err
	}
	var a, b []time.Duration
	for i := range treeRounds + 2 {
		ours, git, err := round(t)
		if err != nil {
			return nil, err
		}
		if i >= 2 {
			a, b = append(a, ours), append(b, git)
		}
	}
	slices.Sort(a)
	slices.Sort(b)
	out := compared("ms", percentile(a, 50), percentile(b, 50), peer, treeRounds)
	out["p95"], out["peer_p95"] = percentile(a, 95), percentile(b, 95)
	return out, nil
}

// stepOverhead measures `true` in a workspace of 1 000 files with the workspace
// recorded around it, against the same without.
func stepOverhead(ctx context.Context) (_ result, err error) {
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	id, err := m.jail(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := m.jails.Workspace(id)
	if err != nil {
		return nil, err
	}
	if err := fill(dir, 1000, 4096); err != nil {
		return nil, err
	}
	// A workspace each: what runs unrecorded in one would have to be looked for.
	other, err := m.jail(ctx)
	if err != nil {
		return nil, err
	}
	const n = 200
	a, b, err := pair(n,
		func() error { _, err := m.runSpec(ctx, trueIn(id, true)); return err },
		func() error { _, err := m.runSpec(ctx, trueIn(other, false)); return err })
	if err != nil {
		return nil, err
	}
	out := compared("ms", percentile(a, 50), percentile(b, 50), "the same exec with snapshots off", n)
	out["added"], out["p95"], out["peer_p95"] = percentile(a, 50)-percentile(b, 50), percentile(a, 95), percentile(b, 95)
	return out, nil
}

func trueIn(jailID string, snapshot bool) *nodev1.ExecSpec {
	return &nodev1.ExecSpec{
		ExecId: ident.New("step"), JailId: jailID, Argv: []string{"/usr/bin/true"}, Timeout: durationpb.New(time.Minute), Snapshot: snapshot,
	}
}
