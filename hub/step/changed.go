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
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// maxLooks is into how many files a decision looks, and maxLook how large one may
	// be, in bytes.
	maxLooks = 16
	maxLook  = 128 << 10
	// maxChangedSteps is of how many steps it is known which files they changed: the
	// last ones.
	maxChangedSteps = 500
	// maxChangedFiles is up to how many files of a task are kept in memory.
	maxChangedFiles = 5000
)

// changed looks into the files that a task has changed, by whatever means: the
// snapshots of its workspace know them. It asks for nothing before a command runs
// or reads a file. It is for one decision.
type changed struct {
	ctx   context.Context //nolint:containedctx // of the decision
	steps *Steps
	q     *db.Queries
	task  db.Task // which has a node
	// before is the number of the step that is decided; 0 for one that is not stored.
	before int32
	// record is what is known of the task's files by its commands.
	record shell.Record
	looks  *looks

	failed error // why nobody knows
	opened bool
	files  changedFiles
	// names are those of the files that were looked into.
	names map[string]bool
	// missed says that the node would have had to be asked, and could not be now.
	missed bool
}

// Names returns what was changed, as far as it was told.
func (c *changed) Names() []string {
	c.open()
	return slices.Collect(maps.Keys(c.files.digests))
}

// Text returns what a changed file holds now.
func (c *changed) Text(name string) (text string, known, ok bool) {
	c.open()
	digest, told := c.files.digests[name]
	below, inside := strings.CutPrefix(name, shell.Workspace+"/")
	if !inside || !told && !c.files.more {
		return "", false, false
	}
	// The text that a command was seen to write counts while the file still has it.
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
	if now != nil {
		return *now, true, true
	}
	return "", false, recorded || !asked
}

// open reads once which files were changed.
func (c *changed) open() {
	if c.opened {
		return
	}
	c.opened = true
	c.files, c.failed = c.steps.changes.of(c.ctx, c.q, c.task, c.before)
}

// changedFiles are the files that a task has changed. They are not changed once
// they were made.
type changedFiles struct {
	// digests are those of the files by their paths.
	digests map[string]string
	// more says that others were changed, which are too many to be told.
	more bool
}

// changes keeps which files tasks have changed, so that what their steps say of it
// is read again only after another has changed some, or some were given back.
type changes struct {
	mu sync.Mutex
	by map[string]keptChanges
}

type keptChanges struct {
	version db.ChangedFilesVersionRow
	files   changedFiles
}

func newChanges() *changes { return &changes{by: map[string]keptChanges{}} }

// of returns which files the steps of a task before one have changed; all of its
// steps where before is 0.
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
	files := changedFiles{digests: map[string]string{}, more: len(rows) == maxChangedSteps}
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

// add notes what one step changed after those before it.
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

// read asks the node for a file of the workspace; nil for what is no text, is too
// large, is not there, or cannot be asked for now.
func (c *changed) read(ctx context.Context, name string) *string {
	node, err := c.steps.cfg.Node(*c.task.NodeID)
	if err != nil {
		return nil
	}
	res, err := node.Files().ReadFile(ctx, &nodev1.ReadFileRequest{JailId: c.task.JailID, Path: name, Limit: maxLook})
	if err != nil || res.GetSize() > maxLook || !utf8.Valid(res.GetContent()) || bytes.IndexByte(res.GetContent(), 0) >= 0 {
		return nil
	}
	text := string(res.GetContent())
	return &text
}
