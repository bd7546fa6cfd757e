package patch

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
)

// Item is a path with what is there.
type Item struct {
	Path  string
	Entry *tree.Entry
}

// Tar writes paths as a tar, folders before what is in them. What is not kept,
// and what tar does not know, is left out and answered, in words. Owners are
// those inside the jail: none is written.
func Tar(w io.Writer, items []Item, contents Contents) (left []string, err error) {
	out := tar.NewWriter(w)
	for _, item := range items {
		e := item.Entry
		if item.Path == tree.Root || e == nil {
			continue
		}
		head := &tar.Header{Name: item.Path, Mode: int64(e.Mode), ModTime: time.Unix(0, e.MTime), Format: tar.FormatPAX}
		if len(e.Xattrs) > 0 {
			head.PAXRecords = map[string]string{}
			for name, value := range e.Xattrs {
				// Attributes outside the user namespace are specific to this
				// machine.
				if strings.HasPrefix(name, "user.") && !strings.ContainsAny(name+value, "=\x00") {
					head.PAXRecords["SCHILY.xattr."+name] = value
				}
			}
		}
		var content *os.File
		switch {
		case strings.ContainsRune(item.Path, 0):
			continue
		case e.Kind == tree.Dir:
			head.Typeflag, head.Name = tar.TypeDir, item.Path+"/"
		case e.Kind == tree.Symlink:
			head.Typeflag, head.Linkname = tar.TypeSymlink, e.Content
		case e.Kind == tree.Fifo:
			head.Typeflag = tar.TypeFifo
		case e.Kind != tree.File:
			left = append(left, fmt.Sprintf("%q is a %s", item.Path, e.Kind))
			continue
		case e.Unkept != tree.Kept:
			left = append(left, fmt.Sprintf("%q: %s", item.Path, e.Unkept))
			continue
		default:
			head.Typeflag, head.Size = tar.TypeReg, e.Size
			if content, err = contents.OpenContent(e.Content); err != nil {
				return left, err
			}
		}
		err = put(out, head, content)
		if err != nil {
			return left, fmt.Errorf("write %q: %w", item.Path, err)
		}
	}
	return left, out.Close()
}

func put(out *tar.Writer, head *tar.Header, content *os.File) error {
	if content != nil {
		defer content.Close()
	}
	if err := out.WriteHeader(head); err != nil {
		return err
	}
	if content == nil {
		return nil
	}
	_, err := io.Copy(out, content)
	return err
}
