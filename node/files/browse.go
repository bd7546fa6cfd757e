package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// browsed are the folders of the machine in browse-paths.
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
	asked := filepath.Clean(path)
	path = asked
	for range maxLinks {
		top := ""
		for _, dir := range b.dirs {
			if (path == dir || strings.HasPrefix(path, dir+"/")) && len(dir) > len(top) {
				top = dir
			}
		}
		if top == "" {
			return nil, "", b.refuse(asked, path)
		}
		w, rel, err := b.below(top, path)
		if err != nil {
			return nil, "", err
		}
		if _, err = w.root.Stat(rel); !escapes(err) {
			return w, rel, nil
		}
		next, err := target(w, rel)
		if err = errors.Join(err, w.root.Close()); err != nil {
			return nil, "", fmt.Errorf("follow the links of %s: %w", path, err)
		}
		path = next
	}
	return nil, "", explain(asked, syscall.ELOOP)
}

// below opens one of the folders, for a path in it.
func (b browsed) below(top, path string) (*workspace, string, error) {
	dir, err := b.folder(top)
	if err != nil {
		return nil, "", err
	}
	rel, err := filepath.Rel(top, path)
	if err != nil {
		return nil, "", fmt.Errorf("find %s in %s: %w", path, top, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", fmt.Errorf("open %s: %w", dir, err)
	}
	return &workspace{root: root, browsed: top}, rel, nil
}

// target returns a path of the machine in place of one of a workspace that the root does not
// follow: with the first of its links replaced by what that leads to. A root follows no
// absolute link, not even one that leads back into it.
func target(w *workspace, rel string) (string, error) {
	parts := strings.Split(rel, "/")
	for i := range parts {
		link := filepath.Join(parts[:i+1]...)
		info, err := w.root.Lstat(link)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		to, err := w.root.Readlink(link)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(w.browsed, filepath.Dir(link), to)
		}
		return filepath.Join(append([]string{to}, parts[i+1:]...)...), nil
	}
	return "", fmt.Errorf("%s has no link", rel) // any more
}

// refuse returns the error for a path that may not be browsed, to which the one leads that was
// asked for.
func (b browsed) refuse(asked, path string) error {
	e := fault.New(fault.Denied, "%s may not be browsed on this node", path).WithCode(fault.PermissionDenied)
	if asked != path {
		e = fault.New(fault.Denied, "%s leads to %s, which may not be browsed on this node", asked, path).WithCode(fault.PermissionDenied)
	}
	if len(b.dirs) == 0 {
		return e.WithFix("have the node's operator set browse-paths in node.yaml, which names no folder now")
	}
	return e.WithFix("use a path below %s, or have the node's operator add a folder to browse-paths in node.yaml", strings.Join(b.dirs, ", "))
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
