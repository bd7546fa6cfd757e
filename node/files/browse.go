package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// browsed are the folders of the machine that the node's operator shows.
type browsed struct {
	dirs   []string
	folder func(dir string) (string, error)
}

// open opens the folder that a path of the machine is in. What it returns is only read: no
// call that writes comes here.
func (b browsed) open(path string) (*workspace, string, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return nil, "", fault.New(fault.Invalid, "%q is not an absolute path", path).WithFix("write it as /var/log/syslog")
	}
	path = filepath.Clean(path)
	top := ""
	for _, dir := range b.dirs {
		if (path == dir || strings.HasPrefix(path, dir+"/")) && len(dir) > len(top) {
			top = dir
		}
	}
	if top == "" {
		return nil, "", b.refuse(path)
	}
	dir, err := b.folder(top)
	if err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", fmt.Errorf("open %s: %w", dir, err)
	}
	rel, err := filepath.Rel(top, path)
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("find %s in %s: %w", path, top, err), root.Close())
	}
	return &workspace{root: root, browsed: top}, rel, nil
}

func (b browsed) refuse(path string) error {
	e := fault.New(fault.Denied, "the operator of this node does not show %s", path).WithCode(fault.PermissionDenied)
	if len(b.dirs) == 0 {
		return e.WithFix("have them set browse-paths in node.yaml, which names no folder now")
	}
	return e.WithFix("use a path below %s, or have them add a folder to browse-paths in node.yaml", strings.Join(b.dirs, ", "))
}

// explainIn is explain for a path of a workspace, which may be a folder of the machine.
func explainIn(w *workspace, path string, err error) error {
	switch {
	case w.browsed == "" || err == nil || fault.As(err) != nil:
	case escapes(err):
		return fault.New(fault.Denied, "%s leads out of %s", path, w.browsed).WithCode(fault.PermissionDenied).
			WithFix("name the file that it leads to, if the node's operator shows it").WithCause(err)
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "there is no %s on this machine", path).WithCause(err)
	}
	return explain(path, err)
}

// nameIn returns how an entry of a workspace is called in responses: a folder of the machine has
// absolute paths.
func nameIn(w *workspace, rel string) string {
	if w.browsed == "" {
		return rel
	}
	return filepath.Join(w.browsed, rel)
}
