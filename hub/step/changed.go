package step

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// maxLooks is the number of files that one decision may read, and maxLook the size in
	// bytes up to which it reads one.
	maxLooks = 16
	maxLook  = 128 << 10
	// maxChangedSteps is the number of a task's latest steps whose changed files are
	// used.
	maxChangedSteps = 500
	// maxChangedFiles is the number of changed files of a task that are kept in memory.
	maxChangedFiles = 5000
)

// changed reads the files that a task has changed by any means, as recorded in the
// snapshots of its workspace. It reads nothing until a command runs or reads a file. It
// serves one decision.
type changed struct {
	ctx   context.Context //nolint:containedctx // context of the decision
	steps *Steps
	q     *db.Queries
	task  db.Task // has a node
	// before is the number of the step that is being decided; 0 for one that is not
	// stored.
	before int32
	// record holds the file contents that the task's commands are known to have written.
	record shell.Record
	looks  *looks

	failed error // why the changed files are unknown
	opened bool
	files  changedFiles
	// names are the files that were read.
	names map[string]bool
	// missed reports that the node had to be asked but could not be at that moment.
	missed bool
}

// Names returns the names of the changed files that are known.
func (c *changed) Names() []string {
	c.open()
	return slices.Collect(maps.Keys(c.files.digests))
}

// Text returns the current content of a changed file.
func (c *changed) Text(name string) (text string, known, ok bool) {
	c.open()
	digest, told := c.files.digests[name]
	below, inside := strings.CutPrefix(name, shell.Workspace+"/")
	if !inside || !told && !c.files.more {
		return "", false, false
	}
	// The text that a command is known to have written counts while the file still has
	// it.
	f, recorded := c.record.Get(name)
	recorded = recorded && f.Known
	if recorded && told {
		if sum := sha256.Sum256([]byte(f.Text)); digest == hex.EncodeToString(sum[:]) {
			return f.Text, true, true
		}
	}
	if c.names == nil {
		c.names = map[string]bool{}
	}
	if len(c.names) >= maxLooks && !c.names[name] {
		return "", false, recorded
	}
	c.names[name] = true
	now, asked := c.looks.text(c, below, digest)
	c.missed = c.missed || !asked
	if now.text != nil {
		return *now.text, true, true
	}
	return "", false, recorded || !asked || now.unread && told
}

// open loads the changed files, once.
func (c *changed) open() {
	if c.opened {
		return
	}
	c.opened = true
	c.files, c.failed = c.steps.changes.of(c.ctx, c.q, c.task, c.before)
}

// changedFiles are the files that a task has changed. A value is immutable once created.
type changedFiles struct {
	// digests maps paths to content digests.
	digests map[string]string
	// more reports that further files may have been changed: more than are kept, or by
	// jobs, whose changes are known only when they have ended.
	more bool
}

// changes caches which files tasks have changed. A task's entry is loaded again only
// after one of its steps changed files, or files were restored.
type changes struct {
	mu sync.Mutex
	by map[string]keptChanges
}

type keptChanges struct {
	version db.ChangedFilesVersionRow
	files   changedFiles
}

func newChanges() *changes { return &changes{by: map[string]keptChanges{}} }

// of returns the files that the steps of a task before the given one have changed, or all
// of its steps if before is 0.
func (k *changes) of(ctx context.Context, q *db.Queries, t db.Task, before int32) (changedFiles, error) {
	version, err := q.ChangedFilesVersion(ctx, db.ChangedFilesVersionParams{OrgID: t.OrgID, TaskID: t.ID, Before: before})
	if err != nil {
		return changedFiles{}, err
	}
	k.mu.Lock()
	kept, ok := k.by[t.ID]
	k.mu.Unlock()
	if ok && kept.version == version {
		return kept.files, nil
	}
	rows, err := q.ChangedFiles(ctx, db.ChangedFilesParams{OrgID: t.OrgID, TaskID: t.ID, Before: before, MaxRows: maxChangedSteps})
	if err != nil {
		return changedFiles{}, err
	}
	files := changedFiles{digests: map[string]string{}, more: len(rows) == maxChangedSteps || version.Jobs}
	for _, row := range slices.Backward(rows) {
		files.add(row)
	}
	k.put(t.ID, keptChanges{version, files})
	return files, nil
}

func (k *changes) put(taskID string, kept keptChanges) {
	if len(kept.files.digests) > maxChangedFiles {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.by[taskID]; !ok && len(k.by) >= maxRecords {
		for other := range k.by {
			delete(k.by, other)
			break
		}
	}
	k.by[taskID] = kept
}

// add applies the changes of one step after those of earlier steps.
func (f *changedFiles) add(row db.ChangedFilesRow) {
	var files []workspace.Recorded
	if json.Unmarshal(row.Changes, &files) != nil {
		return
	}
	f.more = f.more || int(row.Files) > len(files)
	for _, one := range files {
		switch name := path.Join(shell.Workspace, one.Path); {
		case one.Quoted:
			f.more = true
		case one.After == nil:
			delete(f.digests, name)
		case one.After.Type == "file", one.After.Type == "symlink":
			f.digests[name] = one.After.Digest
		}
	}
}

// read reads a file of the workspace from the node.
func (c *changed) read(ctx context.Context, name string) content {
	node, err := c.steps.cfg.Node(*c.task.NodeID)
	if err != nil {
		return content{unread: true}
	}
	res, err := node.Files().ReadFile(ctx, &nodev1.ReadFileRequest{JailId: c.task.JailID, Path: name, Limit: maxLook})
	if err != nil {
		switch fault.As(fault.FromGRPC(err)).Kind {
		case fault.NotFound, fault.Precondition, fault.Denied, fault.Invalid:
			return content{} // it is gone, or nothing that could be read
		}
		return content{unread: true}
	}
	if res.GetSize() > maxLook || !utf8.Valid(res.GetContent()) || bytes.IndexByte(res.GetContent(), 0) >= 0 {
		return content{}
	}
	text := string(res.GetContent())
	return content{text: &text}
}
