package history

import (
	"maps"
	"slices"

	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func encode(e *tree.Entry) *nodev1.SnapshotEntry {
	if e == nil {
		return nil
	}
	out := &nodev1.SnapshotEntry{
		Kind: uint32(e.Kind), Mode: e.Mode, Uid: e.UID, Gid: e.GID, Size: e.Size, Mtime: e.MTime, Content: []byte(e.Content),
		Unkept: uint32(e.Unkept), Link: []byte(e.Link), Ino: e.Stat.Ino, Ctime: e.Stat.CTime, Nlink: e.Stat.Nlink, Racy: e.Stat.Racy,
	}
	for _, name := range slices.Sorted(maps.Keys(e.Xattrs)) {
		out.Xattrs = append(out.Xattrs, &nodev1.SnapshotXattr{Name: []byte(name), Value: []byte(e.Xattrs[name])})
	}
	return out
}

func decode(rec *nodev1.SnapshotEntry) *tree.Entry {
	if rec == nil {
		return nil
	}
	e := &tree.Entry{
		Kind: tree.Kind(rec.GetKind()), Mode: rec.GetMode(), UID: rec.GetUid(), GID: rec.GetGid(), Size: rec.GetSize(),
		MTime: rec.GetMtime(), Content: string(rec.GetContent()), Unkept: tree.Unkept(rec.GetUnkept()), Link: string(rec.GetLink()),
		Stat: tree.Stat{Ino: rec.GetIno(), CTime: rec.GetCtime(), Nlink: rec.GetNlink(), Racy: rec.GetRacy()},
	}
	for _, x := range rec.GetXattrs() {
		if e.Xattrs == nil {
			e.Xattrs = map[string]string{}
		}
		e.Xattrs[string(x.GetName())] = string(x.GetValue())
	}
	return e
}

// EncodeDelta returns a delta as it is stored; its number is its key.
func EncodeDelta(d *tree.Delta) *nodev1.SnapshotDelta {
	out := &nodev1.SnapshotDelta{By: d.By, Undoes: d.Undoes, Time: d.Time}
	for _, c := range d.Changes {
		out.Changes = append(out.Changes, &nodev1.SnapshotChange{Path: []byte(c.Path), Before: encode(c.Before), After: encode(c.After)})
	}
	return out
}

// DecodeDelta reads a stored delta.
func DecodeDelta(seq int64, rec *nodev1.SnapshotDelta) tree.Delta {
	d := tree.Delta{Seq: seq, By: rec.GetBy(), Undoes: rec.GetUndoes(), Time: rec.GetTime()}
	for _, c := range rec.GetChanges() {
		d.Changes = append(d.Changes, tree.Change{Path: string(c.GetPath()), Before: decode(c.GetBefore()), After: decode(c.GetAfter())})
	}
	return d
}
