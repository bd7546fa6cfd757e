// Package artifact copies files of one workspace into another, also on another node: what
// a handoff names, what an agent copies between its jails on several nodes, and what
// people send. Artifacts is its service; a Collection describes files at their source.
//
// Collect describes the files, with the digest of each. They are copied at once (Send),
// or promised to a task in the transaction that stores that task (Promise) and copied
// before the task begins (Deliver). Contents flow from node to node through the hub,
// which stores none of them; a file appears whole, once its digest is verified, or not at
// all.
//
// A file that changed since it was promised is not copied: the task gets a note that it
// is missing. A file at the target is replaced only on request, or if it is unchanged
// since it was last copied there. If either node is offline, nothing is lost: a second
// request continues where the first stopped.
//
// Shared files are copied as well, so that later changes at the source do not affect
// them, but the target can only read them: the node makes the folder and its contents
// owned by root, on the same node and on another.
package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/shortlist"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Limits of one transfer.
const (
	maxFiles = 10_000
	maxBytes = 2 << 30
)

// Config is what Artifacts works with.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Redact   *redact.Redactor
	Nodes    *node.Nodes
	// Node returns the live link to a node.
	Node func(nodeID string) (machine.Link, error)
	// JailOf returns the specification of a task's jail.
	JailOf func(ctx context.Context, t db.Task) (*nodev1.JailSpec, error)
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Artifacts copies files between workspaces.
type Artifacts struct{ cfg Config }

// New creates Artifacts.
func New(cfg Config) *Artifacts {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Artifacts{cfg}
}

// node returns the link to a node that knows what it will be asked for: its
// capability is at least that. To do names it.
func (a *Artifacts) node(ctx context.Context, id string, capability int32, todo string) (machine.Link, error) {
	link, err := a.cfg.Node(id)
	if err != nil {
		return nil, err
	}
	row, err := a.cfg.Store.NodeByID(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("load node %s: %w", id, err)
	}
	if err := node.Require(row, capability, todo); err != nil {
		return nil, fault.As(err).WithFix("update deckhand-node on %s, or leave the files out", row.Name)
	}
	return link, nil
}

// giveFiles is what a source is asked for.
const giveFiles = "give files to other workspaces"

// Place is a workspace.
type Place struct {
	NodeID string
	// Jail is the specification of its jail; of a source only the id is read.
	Jail *nodev1.JailSpec
}

// PlaceOf returns the workspace of a task; a task that has not begun has none.
func (a *Artifacts) PlaceOf(ctx context.Context, t db.Task) (Place, error) {
	if t.NodeID == nil {
		return Place{}, fault.New(fault.Precondition, "task %s has no workspace yet", t.ID).WithObject(t.ID).WithFix("it is made when the task starts")
	}
	jail, err := a.cfg.JailOf(ctx, t)
	return Place{NodeID: *t.NodeID, Jail: jail}, err
}

// Collection is what was found at a source, pinned by its digests.
type Collection struct {
	OrgID string
	From  Place
	// TaskID is the task that the files come from; empty for none.
	TaskID  string
	Entries []*nodev1.UploadEntry
	// Skipped are paths that cannot be copied: sockets, pipes, and names that are not
	// UTF-8, quoted, or contain a secret.
	Skipped []string
	// Missing are the paths and patterns that nothing is at.
	Missing []string
	// Shared reports that the target may read the files and not change them.
	Shared bool
}

// Files counts the files and their bytes.
func (c *Collection) Files() (files int, bytes int64) {
	for _, e := range c.Entries {
		if e.GetType() == "file" {
			files++
			bytes += e.GetSize()
		}
	}
	return files, bytes
}

// Paths returns the first of the paths.
func (c *Collection) Paths(most int) []string {
	out := make([]string, 0, min(most, len(c.Entries)))
	for _, e := range c.Entries[:min(most, len(c.Entries))] {
		out = append(out, e.GetPath())
	}
	return out
}

// Without leaves out the files and links that another collection has.
func (c *Collection) Without(other *Collection) {
	has := map[string]bool{}
	for _, e := range other.Entries {
		has[e.GetPath()] = e.GetType() != "dir"
	}
	c.Entries = slices.DeleteFunc(c.Entries, func(e *nodev1.UploadEntry) bool { return has[e.GetPath()] })
}

// Complete refuses a collection for which nothing was at one of the paths.
func (c *Collection) Complete() error {
	if len(c.Missing) == 0 {
		return nil
	}
	return fault.New(fault.NotFound, "nothing in the workspace is at %s", some(c.Missing)).
		WithFix("name paths below the workspace, or patterns as src/**/*.go")
}

// Collect describes the files at a source that paths and patterns match.
func (a *Artifacts) Collect(ctx context.Context, orgID, taskID string, from Place, paths []string) (*Collection, error) {
	link, err := a.node(ctx, from.NodeID, nodelink.Artifacts, giveFiles)
	if err != nil {
		return nil, err
	}
	found, err := describe(ctx, link, &nodev1.DescribeFilesRequest{
		JailId: from.Jail.GetJailId(), Paths: paths, MaxFiles: maxFiles, MaxBytes: maxBytes,
	})
	if err != nil {
		return nil, err
	}
	c := &Collection{OrgID: orgID, TaskID: taskID, From: from, Skipped: found.GetSkipped(), Missing: found.GetMissing()}
	for i, name := range c.Skipped {
		c.Skipped[i] = a.cfg.Redact.Org(orgID).String(name)
	}
	for _, e := range found.GetEntries() {
		// Names are stored.
		if shown := a.cfg.Redact.Org(orgID).String(e.GetPath()); shown != e.GetPath() || a.cfg.Redact.Org(orgID).String(e.GetTarget()) != e.GetTarget() {
			c.Skipped = append(c.Skipped, shown)
			continue
		}
		c.Entries = append(c.Entries, e)
	}
	return c, nil
}

// describe gathers the answer of one question.
func describe(ctx context.Context, link machine.Link, req *nodev1.DescribeFilesRequest) (*nodev1.DescribeFilesResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := link.Files().DescribeFiles(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("describe files of %s: %w", req.GetJailId(), fault.FromGRPC(err))
	}
	out := &nodev1.DescribeFilesResponse{}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("describe files of %s: %w", req.GetJailId(), fault.FromGRPC(err))
		}
		out.Entries = append(out.Entries, part.GetEntries()...)
		out.Missing = append(out.Missing, part.GetMissing()...)
		out.Skipped = append(out.Skipped, part.GetSkipped()...)
	}
}

// some returns a few of many texts in one.
func some(texts []string) string {
	const shown = 5
	var quoted []string
	for _, t := range texts[:min(len(texts), shown)] {
		quoted = append(quoted, strconv.Quote(t))
	}
	return shortlist.Of(quoted, shown, len(texts))
}

// stillThere returns the entries of a collection that are at the source as they
// were, and the paths of the others.
func (a *Artifacts) stillThere(ctx context.Context, c *Collection) (same []*nodev1.UploadEntry, missing []string, err error) {
	link, err := a.node(ctx, c.From.NodeID, nodelink.Artifacts, giveFiles)
	if err != nil {
		return nil, nil, err
	}
	now, err := at(ctx, link, c.From.Jail.GetJailId(), "", c.Entries)
	if fault.Is(err, fault.NotFound) {
		now, err = nil, nil // the source's workspace was removed
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range c.Entries {
		if have := now[e.GetPath()]; alike(have, e) {
			same = append(same, e)
		} else {
			missing = append(missing, e.GetPath())
		}
	}
	return same, missing, nil
}

// alike reports whether two entries have the same content.
func alike(a, b *nodev1.UploadEntry) bool {
	return a != nil && a.GetType() == b.GetType() && a.GetDigest() == b.GetDigest() && a.GetTarget() == b.GetTarget()
}

// at returns what is at the paths of some entries in a folder, by their paths.
func at(ctx context.Context, link machine.Link, jailID, folder string, entries []*nodev1.UploadEntry) (map[string]*nodev1.UploadEntry, error) {
	out := map[string]*nodev1.UploadEntry{}
	for part := range slices.Chunk(entries, maxFiles) {
		req := &nodev1.DescribeFilesRequest{JailId: jailID, Exact: true, MaxFiles: maxFiles, MaxBytes: 1 << 62}
		for _, e := range part {
			req.Paths = append(req.Paths, path.Join(folder, e.GetPath()))
		}
		found, err := describe(ctx, link, req)
		if err != nil {
			return nil, err
		}
		for _, e := range found.GetEntries() {
			name := e.GetPath()
			if folder != "" {
				name = strings.TrimPrefix(name, folder+"/")
			}
			out[name] = e
		}
	}
	return out, nil
}
