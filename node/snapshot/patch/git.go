package patch

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git's names of objects
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
)

// maxBinary is the maximum size of a content in a patch.
const maxBinary = 32 << 20

// contextLines is what git writes.
const contextLines = 3

// Git writes changes as a patch for `git apply`: contents, links, and whether a
// file is executable. Folders, owners and similar metadata are not part of such
// a patch. left describes the changes that could not be included.
func Git(w io.Writer, changes []tree.Change, contents Contents) (left []string, err error) {
	for _, c := range changes {
		if c.Path == tree.Root {
			continue
		}
		before, err := side(c.Before, contents)
		if err == nil {
			var after *version
			if after, err = side(c.After, contents); err == nil {
				err = change(w, c.Path, before, after)
			}
		}
		if errors.Is(err, errTooLarge) || errors.Is(err, errUnkept) {
			left = append(left, fmt.Sprintf("%q: %v", c.Path, err))
			continue
		}
		if err != nil {
			return left, err
		}
	}
	return left, nil
}

var errUnkept = errors.New("its content is not kept")

// version is one side of a change as git knows it.
type version struct {
	mode    string
	content []byte
}

// side returns nil for what git does not know: nothing, folders, pipes.
func side(e *tree.Entry, contents Contents) (*version, error) {
	if e == nil {
		return nil, nil
	}
	switch e.Kind {
	case tree.Symlink:
		return &version{"120000", []byte(e.Content)}, nil
	case tree.File:
	default:
		return nil, nil
	}
	if e.Unkept != tree.Kept {
		return nil, errUnkept
	}
	if e.Size > maxBinary {
		return nil, errTooLarge
	}
	content, err := read(e, contents)
	if err != nil {
		return nil, err
	}
	if e.Mode&0o100 != 0 {
		return &version{"100755", content}, nil
	}
	return &version{"100644", content}, nil
}

func change(w io.Writer, path string, before, after *version) error {
	switch {
	case before == nil && after == nil:
		return nil
	case before != nil && after != nil && before.mode[:3] != after.mode[:3]:
		// A file that became a link is a file that went and a link that came.
		if err := change(w, path, before, nil); err != nil {
			return err
		}
		return change(w, path, nil, after)
	case before != nil && after != nil && before.mode == after.mode && bytes.Equal(before.content, after.content):
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "diff --git %s %s\n", quote("a/"+path), quote("b/"+path))
	from, to := quote("a/"+path), quote("b/"+path)
	var old, now version
	switch {
	case before == nil:
		fmt.Fprintf(&b, "new file mode %s\n", after.mode)
		from, now = "/dev/null", *after
	case after == nil:
		fmt.Fprintf(&b, "deleted file mode %s\n", before.mode)
		to, old = "/dev/null", *before
	default:
		old, now = *before, *after
		if old.mode != now.mode {
			fmt.Fprintf(&b, "old mode %s\nnew mode %s\n", old.mode, now.mode)
		}
	}
	if !bytes.Equal(old.content, now.content) {
		suffix := ""
		if before != nil && after != nil && old.mode == now.mode {
			suffix = " " + now.mode
		}
		fmt.Fprintf(&b, "index %s..%s%s\n", object(before), object(after), suffix)
		if isText(old.content) && isText(now.content) {
			d, err := unified(from, to, string(old.content), string(now.content), contextLines)
			if err != nil {
				return err
			}
			b.WriteString(d.Unified)
		} else {
			b.WriteString("GIT binary patch\n")
			if err := literal(&b, now.content); err != nil {
				return err
			}
			if err := literal(&b, old.content); err != nil {
				return err
			}
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func isText(content []byte) bool {
	return len(content) <= maxText && bytes.IndexByte(content[:min(len(content), sniff)], 0) < 0 && bytes.Count(content, []byte{'\n'}) <= maxLines
}

// object returns git's name of a content.
func object(v *version) string {
	if v == nil {
		return "0000000000000000000000000000000000000000"
	}
	h := sha1.New() //nolint:gosec // git's names of objects
	fmt.Fprintf(h, "blob %d\x00", len(v.content))
	_, _ = h.Write(v.content)
	return hex.EncodeToString(h.Sum(nil))
}

// base85 is git's alphabet (base85.c).
const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// literal writes a content as a part of a binary patch (git's diff.c,
// emit_binary_diff_body): lines of up to 52 bytes, each with its length.
func literal(b *bytes.Buffer, content []byte) error {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(content); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	fmt.Fprintf(b, "literal %d\n", len(content))
	for data := packed.Bytes(); len(data) > 0; {
		n := min(52, len(data))
		if n <= 26 {
			b.WriteByte(byte('A' + n - 1))
		} else {
			b.WriteByte(byte('a' + n - 27))
		}
		for at := 0; at < n; at += 4 {
			var four [4]byte
			copy(four[:], data[at:n])
			v := uint32(four[0])<<24 | uint32(four[1])<<16 | uint32(four[2])<<8 | uint32(four[3])
			var five [5]byte
			for i := 4; i >= 0; i-- {
				five[i] = base85[v%85]
				v /= 85
			}
			b.Write(five[:])
		}
		b.WriteByte('\n')
		data = data[n:]
	}
	b.WriteByte('\n')
	return nil
}
