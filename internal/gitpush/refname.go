package gitpush

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxRef is the length of a reference's name in bytes. Git has no limit of its own;
// its files do.
const maxRef = 1024

// CheckRef says why a text is not the full name of a reference that can be pushed to.
// The rules are those of git check-ref-format(1) and of receive-pack, which wants
// refs/ and two more components. In addition, names must be UTF-8.
func CheckRef(name string) error {
	rest, ok := strings.CutPrefix(name, "refs/")
	switch {
	case len(name) > maxRef:
		return fmt.Errorf("it has %d bytes: at most %d are allowed", len(name), maxRef)
	case !utf8.ValidString(name):
		return errors.New("it is not UTF-8")
	case !ok:
		return errors.New("it does not begin with refs/: write the full name, such as refs/heads/main")
	case !strings.Contains(rest, "/"):
		return errors.New("it is not below a folder such as refs/heads/ or refs/tags/")
	case strings.HasSuffix(name, "."):
		return errors.New("it ends with a dot")
	case strings.Contains(name, ".."):
		return errors.New("it contains two dots in a row")
	case strings.Contains(name, "@{"):
		return errors.New("it contains @{")
	}
	for component := range strings.SplitSeq(name, "/") {
		switch {
		case component == "":
			return errors.New("a part between slashes is empty")
		case component[0] == '.':
			return errors.New("a part between slashes begins with a dot")
		case strings.HasSuffix(component, ".lock"):
			return errors.New("a part between slashes ends with .lock")
		}
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c == 0x7f || strings.IndexByte("~^:?*[\\", c) >= 0 {
			return fmt.Errorf("it contains %q, which git does not allow", c)
		}
	}
	return nil
}
