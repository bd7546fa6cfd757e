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
	"time"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/hub/workspace"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// readTimeout bounds the looks into files that a command runs: the task's row is
	// locked meanwhile.
	readTimeout = 2 * time.Second
	// maxLooks is into how many files a decision looks, and maxLook how large one may
	// be, in bytes.
	maxLooks = 16
	maxLook  = 128 << 10
	// maxChangedSteps is of how many steps it is known which files they changed: the
	// last ones.
	maxChangedSteps = 500
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

	failed error // why nobody knows
	// digests are those of the files that were changed, by their paths; nil before
	// they are read. more says that others were, which are too many to be told.
	digests map[string]string
	more    bool
	// texts are those that the node was asked for; nil for what is no text.
	texts map[string]*string
	end   time.Time // of asking
}

// Names returns what was changed, as far as it was told.
func (c *changed) Names() []string {
	c.open()
	return slices.Collect(maps.Keys(c.digests))
}

// Text returns what a changed file holds now.
func (c *changed) Text(name string) (string, bool) {
	c.open()
	digest, ok := c.digests[name]
	below, inside := strings.CutPrefix(name, shell.Workspace+"/")
	if !inside || !ok && !c.more {
		return "", false
	}
	if f, known := c.record.Get(name); known && f.Known {
		sum := sha256.Sum256([]byte(f.Text))
		if digest == "" || digest == hex.EncodeToString(sum[:]) {
			return f.Text, true
		}
	}
	text, ok := c.texts[name]
	if !ok {
		if len(c.texts) < maxLooks {
			text = c.read(below)
		}
		c.texts[name] = text
	}
	if text == nil {
		return "", false
	}
	return *text, true
}

// open reads once which files were changed.
func (c *changed) open() {
	if c.digests != nil {
		return
	}
	c.digests, c.texts = map[string]string{}, map[string]*string{}
	rows, err := c.q.ChangedFiles(c.ctx, db.ChangedFilesParams{OrgID: c.task.OrgID, TaskID: c.task.ID, Before: c.before, MaxRows: maxChangedSteps})
	if err != nil {
		c.failed = err
		return
	}
	c.more = len(rows) == maxChangedSteps
	for _, row := range slices.Backward(rows) {
		var files []workspace.Recorded
		if json.Unmarshal(row.Changes, &files) != nil {
			continue
		}
		c.more = c.more || int(row.Files) > len(files)
		for _, f := range files {
			switch name := path.Join(shell.Workspace, f.Path); {
			case f.Quoted:
				c.more = true
			case f.After == nil:
				delete(c.digests, name)
			case f.After.Type == "file", f.After.Type == "symlink":
				c.digests[name] = f.After.Digest
			}
		}
	}
}

// read asks the node; nil for what is no text, or is not there.
func (c *changed) read(name string) *string {
	if c.end.IsZero() {
		c.end = time.Now().Add(readTimeout)
	}
	ctx, cancel := context.WithDeadline(c.ctx, c.end)
	defer cancel()
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
