package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// bbolt looks at the pages of a file in goroutines of its own, where what is
// wrong with one is a panic that nobody can catch. So each page that a file's
// tree reaches is looked at here before bbolt opens it. The layout is bbolt's
// version 2, in the machine's byte order:
//
//	page    id u64, flags u16, count u16, overflow u32, then its elements
//	branch  pos u32, ksize u32, pgid u64; the key is pos bytes from there
//	leaf    flags u32, pos u32, ksize u32, vsize u32; key, then value
//	meta    magic u32, version u32, pageSize u32, flags u32, root u64,
//	        sequence u64, freelist u64, pgid u64, txid u64, FNV-1a u64
//	bucket  root u64, sequence u64; with root 0 a leaf page follows
const (
	pageHeader  = 16
	elementSize = 16
	bucketSize  = 16
	metaSize    = 64
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	flagBranch  = 0x01
	flagLeaf    = 0x02
	leafBucket  = 0x01
	maxDepth    = 64
)

var native = binary.NativeEndian

// errLocked is answered for a file that another process has open.
var errLocked = errors.New("open in another process")

// verify returns what is wrong with the file at path. One that is not there,
// or empty, is right.
func verify(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lock(f); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	raw, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map it: %w", err)
	}
	defer func() { _ = unix.Munmap(raw) }()
	return verifyFile(raw)
}

// lock waits for the file's lock as long as bbolt would. It is released when
// the file is closed.
func lock(f *os.File) error {
	for end := time.Now().Add(lockTimeout); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("lock it: %w", err)
		}
		if time.Now().After(end) {
			return errLocked
		}
	}
}

// file is a file being verified.
type file struct {
	raw      []byte
	pageSize uint64
	pages    uint64 // the high-water mark
	seen     []bool // by page
}

func verifyFile(raw []byte) error {
	meta := currentMeta(raw)
	if meta == nil {
		return errors.New("neither of its two head pages is whole")
	}
	f := &file{raw: raw, pageSize: uint64(native.Uint32(meta[8:])), pages: native.Uint64(meta[40:])}
	if f.pageSize < 512 || f.pages > uint64(len(raw))/f.pageSize {
		return fmt.Errorf("it is %d bytes, and should have %d pages of %d", len(raw), f.pages, f.pageSize)
	}
	f.seen = make([]bool, f.pages)
	return f.tree(native.Uint64(meta[16:]), nil, nil, 0)
}

// currentMeta returns the newer of the head pages that are whole.
func currentMeta(raw []byte) []byte {
	var best []byte
	for _, at := range []int{0, os.Getpagesize(), 4096, 8192, 16384, 65536} {
		if len(raw) < at+pageHeader+metaSize {
			continue
		}
		meta := raw[at+pageHeader:][:metaSize]
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:56])
		if native.Uint32(meta) != metaMagic || native.Uint32(meta[4:]) != metaVersion || native.Uint64(meta[56:]) != sum.Sum64() {
			continue
		}
		if at != 0 && at != int(native.Uint32(meta[8:])) {
			continue
		}
		if best == nil || native.Uint64(meta[48:]) > native.Uint64(best[48:]) {
			best = meta
		}
	}
	return best
}

// tree verifies a page and all below it. Its keys are at least from and less
// than to; nil is no bound.
func (f *file) tree(id uint64, from, to []byte, depth int) error {
	if id < 2 || id >= f.pages || depth > maxDepth {
		return fmt.Errorf("page %d cannot contain data", id)
	}
	head := f.raw[id*f.pageSize:]
	overflow := uint64(native.Uint32(head[12:]))
	if id+overflow >= f.pages {
		return fmt.Errorf("page %d is longer than the file", id)
	}
	for p := id; p <= id+overflow; p++ {
		if f.seen[p] {
			return fmt.Errorf("page %d is used twice", p)
		}
		f.seen[p] = true
	}
	if have := native.Uint64(head); have != id {
		return fmt.Errorf("page %d calls itself %d", id, have)
	}
	if err := f.page(head[:(overflow+1)*f.pageSize], from, to, depth); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// page verifies the elements of a page, which all are within its bytes.
func (f *file) page(p, from, to []byte, depth int) error {
	if len(p) < pageHeader {
		return errors.New("it is too short")
	}
	flags, count := native.Uint16(p[8:]), int(native.Uint16(p[10:]))
	if flags != flagBranch && flags != flagLeaf || flags == flagBranch && count == 0 {
		return fmt.Errorf("its kind is %#x with %d elements", flags, count)
	}
	if pageHeader+count*elementSize > len(p) {
		return fmt.Errorf("it cannot hold %d elements", count)
	}
	keys := make([][]byte, count+1)
	keys[count] = to
	for i := range count {
		key, value, err := element(p, flags, i)
		if err != nil {
			return err
		}
		if i > 0 && bytes.Compare(keys[i-1], key) >= 0 || bytes.Compare(key, from) < 0 || to != nil && bytes.Compare(key, to) >= 0 {
			return fmt.Errorf("its key %d is out of order", i)
		}
		keys[i] = key
		if flags == flagLeaf && value != nil {
			if err := f.bucket(value, depth); err != nil {
				return err
			}
		}
	}
	if flags == flagBranch {
		for i := range count {
			child := native.Uint64(p[pageHeader+i*elementSize+8:])
			if err := f.tree(child, keys[i], keys[i+1], depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// element returns the key of an element, and the value if it is a bucket.
func element(p []byte, flags uint16, i int) (key, bucket []byte, err error) {
	at := pageHeader + i*elementSize
	e := p[at:]
	var pos, ksize, vsize uint64
	if flags == flagBranch {
		pos, ksize = uint64(native.Uint32(e)), uint64(native.Uint32(e[4:]))
	} else {
		pos, ksize, vsize = uint64(native.Uint32(e[4:])), uint64(native.Uint32(e[8:])), uint64(native.Uint32(e[12:]))
	}
	if pos+ksize+vsize > uint64(len(e)) {
		return nil, nil, fmt.Errorf("its element %d is not within it", i)
	}
	key = e[pos:][:ksize:ksize]
	if flags == flagLeaf && native.Uint32(e)&leafBucket != 0 {
		bucket = e[pos+ksize:][:vsize:vsize]
	}
	return key, bucket, nil
}

// bucket verifies a bucket below a leaf.
func (f *file) bucket(value []byte, depth int) error {
	if len(value) < bucketSize {
		return errors.New("a bucket in it is too short")
	}
	if root := native.Uint64(value); root != 0 {
		return f.tree(root, nil, nil, depth+1)
	}
	if depth > maxDepth {
		return errors.New("its buckets are nested without end")
	}
	return f.page(value[bucketSize:], nil, nil, depth+1)
}
