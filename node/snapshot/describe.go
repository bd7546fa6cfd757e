package snapshot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// How much of a change is sent with the end of a command.
const (
	shownChanges = 100
	shownUnkept  = 20
	// maxChanges is the maximum number of changes in one response.
	maxChanges = 10_000
)

// changeOf returns what an id changed, by all that is recorded of it.
func (sp *space) changeOf(id string) (*nodev1.WorkspaceChange, error) {
	out := &nodev1.WorkspaceChange{Id: id, Record: sp.state.name, Before: sp.state.seq, After: sp.state.seq, Unkept: int32(len(sp.state.unkept))}
	for path := range sp.state.unkept {
		if len(out.UnkeptPaths) < shownUnkept {
			out.UnkeptPaths = append(out.UnkeptPaths, []byte(path))
		}
	}
	seqs, err := sp.history.Of(id)
	if err != nil || len(seqs) == 0 {
		return out, err
	}
	out.Before = seqs[0] - 1
	chosen, err := sp.choose(&nodev1.ChangeRange{By: []string{id}})
	if err != nil {
		return nil, err
	}
	deltas := chosen.chosen()
	shared := map[string]bool{}
	for _, d := range deltas {
		for _, other := range d.By {
			if other != id && !shared[other] {
				shared[other] = true
				out.SharedWith = append(out.SharedWith, other)
			}
		}
	}
	slices.Sort(out.SharedWith)
	changes := tree.Compose(deltas)
	out.Files = int32(len(changes))
	out.Changes = describeChanges(changes[:min(len(changes), shownChanges)])
	return out, nil
}

func describeChanges(changes []tree.Change) []*nodev1.FileChange {
	out := make([]*nodev1.FileChange, 0, len(changes))
	for _, c := range changes {
		out = append(out, describeChange(c))
	}
	return out
}

func describeChange(c tree.Change) *nodev1.FileChange {
	return &nodev1.FileChange{Path: []byte(c.Path), Kind: kindOf(c), Before: describeEntry(c.Before), After: describeEntry(c.After)}
}

func kindOf(c tree.Change) nodev1.ChangeKind {
	switch {
	case c.Before == nil:
		return nodev1.ChangeKind_CHANGE_KIND_ADDED
	case c.After == nil:
		return nodev1.ChangeKind_CHANGE_KIND_DELETED
	case c.Before.Kind == c.After.Kind && c.Before.Content == c.After.Content && c.Before.Unkept == c.After.Unkept && c.Before.Unkept == tree.Kept:
		return nodev1.ChangeKind_CHANGE_KIND_METADATA
	}
	return nodev1.ChangeKind_CHANGE_KIND_MODIFIED
}

func describeEntry(e *tree.Entry) *nodev1.FileState {
	if e == nil {
		return nil
	}
	out := &nodev1.FileState{Type: e.Kind.String(), Mode: e.Mode, Size: e.Size}
	if e.Unkept != tree.Kept {
		out.Unkept = e.Unkept.String()
	}
	switch {
	case e.Kind == tree.Symlink:
		out.Target = []byte(e.Content)
	case !strings.Contains(e.Content, "."):
		out.Digest = e.Content
	}
	return out
}

var reasons = map[tree.Why]string{
	tree.ChangedLater: "changed_later", tree.NotKept: "not_kept", tree.NotEmpty: "not_empty", tree.NoFolder: "no_folder",
}

// describePlan returns an undo as a response message.
func describePlan(p tree.Plan) *nodev1.UndoChangesResponse {
	out := &nodev1.UndoChangesResponse{
		Files: int32(len(p.Changes)), Changes: describeChanges(p.Changes[:min(len(p.Changes), maxChanges)]),
	}
	paths := make([]string, 0, len(p.Changes))
	at := make(map[string]tree.Change, len(p.Changes))
	for _, c := range p.Changes {
		paths = append(paths, c.Path)
		at[c.Path] = c
	}
	out.OriginalDigest = tree.DigestOf(paths, func(path string) *tree.Entry { return at[path].Before })
	out.RestoredDigest = tree.DigestOf(paths, func(path string) *tree.Entry { return at[path].After })
	for _, c := range p.Conflicts[:min(len(p.Conflicts), maxChanges)] {
		out.Conflicts = append(out.Conflicts, &nodev1.UndoConflict{
			Path: []byte(c.Path), Reason: reasons[c.Why], Message: conflictText(c), Later: c.Later,
		})
	}
	return out
}

func conflictText(c tree.Conflict) string {
	switch c.Why {
	case tree.ChangedLater:
		if len(c.Later) == 0 {
			return fmt.Sprintf("%q was changed later", c.Path)
		}
		return fmt.Sprintf("%q was changed later, by %s", c.Path, strings.Join(c.Later, ", "))
	case tree.NotKept:
		return fmt.Sprintf("%q cannot be restored: %s", c.Path, c.Detail)
	case tree.NotEmpty:
		return fmt.Sprintf("the folder %q would go and has %q in it", c.Path, c.Detail)
	}
	return fmt.Sprintf("%q cannot be restored: its folder %q is not there any more", c.Path, c.Detail)
}
