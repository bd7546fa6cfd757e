// Package files reads and writes files in the workspaces of jails, from outside
// the jail and as root, while the jail's own processes may be changing them.
//
// Every access goes through an os.Root of the workspace, so that no "..",
// symbolic link or race leads out of it; an attempt fails as a sandbox
// violation that names the path. Only regular files are opened. A file is
// replaced completely or not at all. An append with an operation id takes
// effect once, even if the daemon dies while it runs.
//
// Folders that another workspace shares with this one can be read and not
// changed; see shared.go.
//
// Nothing is kept in memory between calls. A daemon that dies leaves at most the
// part of an upload behind, which goes on later.
package files

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/grep"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Workspaces knows where the jails' workspaces are.
type Workspaces interface {
	// Workspace returns the folder on the host that is the jail's /workspace,
	// or fault.NotFound. Nothing in a jail can move it.
	Workspace(jailID string) (dir string, err error)
	// Outputs opens the folder that is the jail's nodelink.OutputsPath, or returns
	// os.ErrNotExist.
	Outputs(jailID string) (*os.Root, error)
	// Owner returns the user and group, on the host, of what a jail writes.
	Owner(jailID string) (uid, gid int)
}

// Ledger stores operations that must take effect once. The record is on disk
// when Operation returns.
type Ledger interface {
	// Operation gets or creates a record. If existed is false, the caller may
	// take effect. If it is true and the record is not done, an earlier call
	// began, and its plan shows how to find out how far it came. An id that was
	// used with the digest of another request is refused.
	Operation(ctx context.Context, id string, digest, plan []byte, of ledger.Subject) (rec *nodev1.OperationRecord, existed bool, err error)
	// Complete records that the operation took effect and what was answered.
	Complete(ctx context.Context, id string, result []byte) error
}

// Limits of what one call reads or writes.
const (
	defaultRead = 1 << 20
	maxRead     = 4 << 20
	maxWrite    = 32 << 20
	maxAppend   = 4 << 20
	// maxDigest is the size up to which a whole file's digest is answered.
	maxDigest   = 64 << 20
	defaultList = 1_000
	maxList     = 10_000
)

// Config is what the service needs.
type Config struct {
	Workspaces Workspaces
	Ledger     Ledger
	// Changes is notified of changes to workspaces; nil for none.
	Changes Changes
	// Browsed are the folders of the machine that the node's operator shows, and Folder
	// returns one of them, or why it may not be read.
	Browsed []string
	Folder  func(dir string) (string, error)
}

// Service implements nodev1.FileServiceServer. Its errors are faults.
type Service struct {
	nodev1.UnimplementedFileServiceServer

	cfg Config
	// writing is locked while a call changes a workspace, so that what a write
	// has checked (a digest, a size) still holds when it takes effect, as far
	// as other calls are concerned. Jails share the locks by hash.
	writing  [64]sync.Mutex
	searches *grep.Slots
	watching watching
}

// New creates a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Workspaces == nil || cfg.Ledger == nil {
		return nil, errors.New("files: Workspaces and Ledger must be set")
	}
	for _, dir := range cfg.Browsed {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" {
			return nil, fault.New(fault.Invalid, "browse-paths: %q is not the absolute path of a folder", dir).WithFix("write it as /var/log")
		}
	}
	return &Service{cfg: cfg, searches: grep.NewSlots()}, nil
}

func (s *Service) lock(jailID string) *sync.Mutex {
	h := fnv.New32a()
	_, _ = h.Write([]byte(jailID)) // never fails
	return &s.writing[h.Sum32()%uint32(len(s.writing))]
}

// open returns the jail's workspace and the path below it. The caller closes
// the workspace.
func (s *Service) open(jailID, path string) (*workspace, string, error) {
	name, err := clean(path)
	if err != nil {
		return nil, "", err
	}
	dir, err := s.cfg.Workspaces.Workspace(jailID)
	if err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", fmt.Errorf("open the workspace of %s: %w", jailID, err)
	}
	uid, gid := s.cfg.Workspaces.Owner(jailID)
	return &workspace{root: root, uid: uid, gid: gid, keepOwner: strings.HasPrefix(jailID, nodelink.HostFolder)}, name, nil
}

// openToRead is open for a call that only reads: it may also name an output, or a path of
// the machine that is browsed.
func (s *Service) openToRead(jailID, path string) (*workspace, string, error) {
	if jailID == nodelink.BrowsedFiles {
		return browsed{s.cfg.Browsed, s.cfg.Folder}.open(path)
	}
	name, ok := strings.CutPrefix(path, nodelink.OutputsPath+"/")
	if !ok {
		return s.open(jailID, path)
	}
	name, err := clean(name)
	if err != nil {
		return nil, "", err
	}
	root, err := s.cfg.Workspaces.Outputs(jailID)
	if errors.Is(err, os.ErrNotExist) {
		return nil, "", fault.New(fault.NotFound, "no output %q in jail %s", path, jailID).WithCause(err)
	}
	if err != nil {
		return nil, "", err
	}
	return &workspace{root: root}, name, nil
}

func tooLarge(what string, size, limit int) error {
	return fault.New(fault.Invalid, "%s of %d bytes is too large", what, size).
		WithFix("at most %d bytes at once", limit)
}
