// Package tree represents the state of a workspace at one moment: every name in
// it with all the metadata that an undo has to restore. It does not access the
// disk.
package tree

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"slices"
	"strings"
)

// Kind is what an entry is.
type Kind uint8

// The kinds. The numbers are stored.
const (
	File    Kind = 1
	Dir     Kind = 2
	Symlink Kind = 3
	Fifo    Kind = 4
	Socket  Kind = 5
	Device  Kind = 6
)

// String returns the name of the kind.
func (k Kind) String() string {
	return [...]string{"nothing", "file", "dir", "symlink", "fifo", "socket", "device"}[k]
}

// Root is the path of the workspace itself. All others are relative to it,
// clean, and any bytes but NUL.
const Root = "."

// Entry is one name in the workspace. An Entry in a Tree is never changed in
// place.
type Entry struct {
	Kind Kind
	// Mode is the permission bits with set-id and sticky.
	Mode     uint32
	UID, GID uint32
	// Size of a file in bytes.
	Size int64
	// MTime of a file, in nanoseconds of the epoch. It is restored with the
	// content, and by itself is no difference.
	MTime int64
	// Content names a file's content in the store; empty where it is not kept.
	// Of a symbolic link it is the target.
	Content string
	// Unkept says why a file's content is not kept.
	Unkept Unkept
	// Link is the first path, in byte order, of the file that this is another
	// name of; empty for that first one.
	Link string
	// Xattrs are the extended attributes that a jail may set.
	Xattrs map[string]string
	// Stat is how the scan knows the entry again. It is no part of what the
	// entry is.
	Stat Stat
}

// Unkept is why a file's content is not kept. The numbers are stored.
type Unkept uint8

// The reasons.
const (
	Kept Unkept = 0
	// TooLarge for what this node keeps.
	TooLarge Unkept = 1
	// NoRoom in the store when it was seen.
	NoRoom Unkept = 2
	// Busy: it changed all the time while it was read.
	Busy Unkept = 3
	// TooDeep is a folder whose path is so long that what is in it is not
	// looked at.
	TooDeep Unkept = 4
	// Unreadable: the kernel refused to read it.
	Unreadable Unkept = 5
)

// String returns the reason in words.
func (u Unkept) String() string {
	return [...]string{"kept", "too large to keep", "no room in the node's store", "it changed while it was read",
		"its path is too long", "it cannot be read"}[u]
}

// Stat is what the kernel says of an entry.
type Stat struct {
	Ino   uint64
	CTime int64
	Nlink uint32
	// Racy reports that it changed so shortly before it was examined that a
	// later change may have the same time.
	Racy bool
}

// Same reports whether two entries are the same for a person: nil is no entry.
func Same(a, b *Entry) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Kind != b.Kind || a.Mode != b.Mode || a.UID != b.UID || a.GID != b.GID || a.Link != b.Link || !maps.Equal(a.Xattrs, b.Xattrs) {
		return false
	}
	switch a.Kind {
	case File:
		if a.Unkept != Kept || b.Unkept != Kept {
			// All that is known of it is when it changed.
			return a.Size == b.Size && a.MTime == b.MTime && a.Stat.CTime == b.Stat.CTime && a.Stat.Ino == b.Stat.Ino
		}
		return a.Size == b.Size && a.Content == b.Content
	case Symlink:
		return a.Content == b.Content
	}
	return true
}

// Restorable reports whether the entry can be made again; nil, no entry, can.
func (e *Entry) Restorable() bool {
	return e == nil || e.Unkept == Kept && e.Kind != Socket && e.Kind != Device
}

// Node is an entry in its tree.
type Node struct {
	Entry *Entry
	// Children of a folder by name; nil for none.
	Children map[string]*Node
	// Seen is the scan's own.
	Seen uint64
}

// Tree is all entries of a workspace.
type Tree struct {
	Root *Node
	n    int
}

// New returns a tree in which nothing is known yet, not even the workspace
// itself.
func New() *Tree { return &Tree{Root: &Node{}} }

// Len returns how many entries there are.
func (t *Tree) Len() int { return t.n }

func (t *Tree) node(path string) *Node {
	n := t.Root
	if path == Root {
		return n
	}
	for part := range strings.SplitSeq(path, "/") {
		if n = n.Children[part]; n == nil {
			return nil
		}
	}
	return n
}

// Get returns the entry at a path, or nil.
func (t *Tree) Get(path string) *Entry {
	if n := t.node(path); n != nil {
		return n.Entry
	}
	return nil
}

// Children returns the names in a folder, in order.
func (t *Tree) Children(path string) []string {
	if n := t.node(path); n != nil {
		return slices.Sorted(maps.Keys(n.Children))
	}
	return nil
}

// Set puts an entry at a path, or takes away what is there with all below it
// when e is nil. It returns false when the folder above is not in the tree.
func (t *Tree) Set(path string, e *Entry) bool {
	if path == Root {
		if t.Root.Entry == nil && e != nil {
			t.n++
		}
		t.Root.Entry = e
		return true
	}
	dir, base := Split(path)
	parent := t.node(dir)
	if parent == nil || parent.Entry == nil || parent.Entry.Kind != Dir {
		return false
	}
	have := parent.Children[base]
	if e == nil {
		if have != nil {
			t.n -= count(have)
			delete(parent.Children, base)
		}
		return true
	}
	if have == nil {
		if parent.Children == nil {
			parent.Children = map[string]*Node{}
		}
		parent.Children[base] = &Node{Entry: e}
		t.n++
		return true
	}
	if e.Kind != Dir && have.Children != nil {
		t.n -= count(have) - 1
		have.Children = nil
	}
	have.Entry = e
	return true
}

func count(n *Node) int {
	total := 1
	for _, child := range n.Children {
		total += count(child)
	}
	return total
}

// Split returns the folder of a path and its last part.
func Split(path string) (dir, base string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return Root, path
	}
	return path[:i], path[i+1:]
}

// Join returns the path of a name in a folder.
func Join(dir, base string) string {
	if dir == Root {
		return base
	}
	return dir + "/" + base
}

// Walk calls fn for each entry, folders before what is in them and siblings by
// name, until it returns false.
func (t *Tree) Walk(fn func(path string, e *Entry) bool) {
	if t.Root.Entry != nil {
		walk(Root, t.Root, fn)
	}
}

func walk(path string, n *Node, fn func(string, *Entry) bool) bool {
	if !fn(path, n.Entry) {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(n.Children)) {
		if !walk(Join(path, name), n.Children[name], fn) {
			return false
		}
	}
	return true
}

// Clone returns a tree that can be changed apart from t. Entries are shared.
func (t *Tree) Clone() *Tree {
	return &Tree{Root: t.Root.clone(), n: t.n}
}

func (n *Node) clone() *Node {
	out := &Node{Entry: n.Entry}
	if n.Children != nil {
		out.Children = make(map[string]*Node, len(n.Children))
		for name, child := range n.Children {
			out.Children[name] = child.clone()
		}
	}
	return out
}

// Digest returns a SHA-256 in hex of all that an undo restores.
func (t *Tree) Digest() string {
	h := sha256.New()
	t.Walk(func(path string, e *Entry) bool {
		add(h, path, e)
		return true
	})
	return hex.EncodeToString(h.Sum(nil))
}

// DigestOf returns a SHA-256 in hex of some entries with their paths.
func DigestOf(paths []string, entry func(path string) *Entry) string {
	h := sha256.New()
	for _, path := range slices.Sorted(slices.Values(paths)) {
		add(h, path, entry(path))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func add(h hash.Hash, path string, e *Entry) {
	text := func(s string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		_, _ = h.Write(n[:])
		_, _ = h.Write([]byte(s))
	}
	number := func(n uint64) {
		var raw [8]byte
		binary.BigEndian.PutUint64(raw[:], n)
		_, _ = h.Write(raw[:])
	}
	text(path)
	if e == nil {
		number(0)
		return
	}
	number(uint64(e.Kind))
	number(uint64(e.Mode))
	number(uint64(e.UID)<<32 | uint64(e.GID))
	number(uint64(e.Size))
	text(e.Content)
	text(e.Link)
	number(uint64(len(e.Xattrs)))
	for _, name := range slices.Sorted(maps.Keys(e.Xattrs)) {
		text(name)
		text(e.Xattrs[name])
	}
}
