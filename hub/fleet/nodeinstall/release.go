package nodeinstall

import (
	"bufio"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Release is the release whose programs the hub serves.
type Release struct {
	// Version is what its signature says.
	Version string
	// Digests are the SHA-256 of deckhand-node by kind of machine, such as amd64.
	Digests map[string]string
}

// signedFor begins the trusted comment of a release's signature.
const signedFor = "trusted comment: Deckhand "

// Release returns the release in the folder. Its signature is not verified: nodes do that,
// with keys of their own.
func (h *Handler) Release() (Release, error) {
	missing := func(what string) error {
		return fault.New(fault.Precondition, "this hub has no release for nodes: %s", what).
			WithFix("put deckhand-node-linux-*, %s and %s of a release into a folder, and name it with the hub's setting node-programs", sumsName, signatureName)
	}
	if h.dir == "" {
		return Release{}, missing("its setting node-programs is empty")
	}
	signature, err := os.ReadFile(filepath.Join(h.dir, signatureName))
	if err != nil {
		return Release{}, missing(reason(err))
	}
	sums, err := os.ReadFile(filepath.Join(h.dir, sumsName))
	if err != nil {
		return Release{}, missing(reason(err))
	}
	out := Release{Digests: map[string]string{}}
	for line := range strings.Lines(string(signature)) {
		if said, found := strings.CutPrefix(line, signedFor); found {
			out.Version, _, _ = strings.Cut(strings.TrimSpace(said), " ")
		}
	}
	if out.Version == "" {
		return out, missing(signatureName + " does not say for which version it is")
	}
	lines := bufio.NewScanner(strings.NewReader(string(sums)))
	for lines.Scan() {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		kind, program := strings.CutPrefix(name, programName)
		if !program {
			continue
		}
		if _, got, err := h.open(kind, false); err != nil || got != sum {
			return out, missing(name + " is missing, or is not that of the release")
		}
		out.Digests[kind] = sum
	}
	if len(out.Digests) == 0 {
		return out, missing(sumsName + " has no deckhand-node")
	}
	return out, nil
}

// reason says why a file of the folder cannot be read, without the folder's path.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return filepath.Base(at.Path) + ": " + at.Err.Error()
	}
	return err.Error()
}

// signed serves the list of digests of the release, or its signature.
func (h *Handler) signed(w http.ResponseWriter, r *http.Request, name string) {
	if h.dir == "" {
		http.NotFound(w, r)
		return
	}
	text, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(text) //nolint:gosec // plain text of the operator's; the node sees a list that is cut off
}
