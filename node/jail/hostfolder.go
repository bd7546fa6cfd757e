package jail

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
)

// A folder of the machine has an id of its own, nodelink.HostFolder and its path, by which its
// changes are recorded and file operations are confined to it, as to a jail's workspace.

// hostFolder returns the folder of an id; false for a jail's.
func hostFolder(id string) (dir string, ok bool) {
	return strings.CutPrefix(id, nodelink.HostFolder)
}

// BrowsedFolder returns a folder of the machine that the operator of the node with a data
// folder shows, or why it may not be read.
func BrowsedFolder(dataDir, dir string) (string, error) {
	return checkHostFolder(dataDir, dir, "name another folder in browse-paths of the node's configuration")
}

// checkHostFolder returns a folder of the machine, or why it may not be used: it is no folder, it is
// reached through a symbolic link, or it holds the node's own data.
func checkHostFolder(dataDir, dir, fix string) (string, error) {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Precondition, format, args...).WithFix("%s", fix).WithObject(nodelink.HostFolder + dir)
	}
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" {
		return "", bad("%q is not the absolute path of a folder", dir)
	}
	data, err := filepath.EvalSymlinks(dataDir)
	if err != nil {
		data = dataDir
	}
	if within(dir, data) || within(data, dir) {
		return "", bad("%s holds the node's own data", dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if os.IsNotExist(err) {
		return "", bad("there is no folder %s on this machine", dir)
	}
	if err != nil {
		return "", bad("%s cannot be opened: %v", dir, err)
	}
	if real != dir {
		return "", bad("%s is reached through a symbolic link: it is %s", dir, real)
	}
	if !isDir(dir) {
		return "", bad("%s is not a folder", dir)
	}
	return dir, nil
}
