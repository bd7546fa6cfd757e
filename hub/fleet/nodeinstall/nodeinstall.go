// Package nodeinstall serves what makes a machine a node with one command: a script, and
// the program that it installs. The console and the command line show it with a join
// token.
//
// Both can be read by anybody, as the console's pages can: they say nothing about the
// installation, and without a join token they make no node. The script has the digests
// of the programs, so that a damaged download is not started. Few downloads run at a
// time, so that they take little of what the hub has. Without a program for a kind of
// machine the script says so.
//
// A folder with a whole release also has the list of its digests and their signature, which
// nodes verify before they upgrade themselves: the hub only passes them on.
package nodeinstall

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Prefix is the path below which script and programs are.
const Prefix = "/install/"

// scriptName and programName are below Prefix; the second is followed by the kind of
// machine.
const (
	scriptName  = "node"
	programName = "deckhand-node-linux-"
	// sumsName and signatureName are those of the release in the folder, for nodes that
	// upgrade themselves.
	sumsName      = "SHA256SUMS"
	signatureName = sumsName + ".minisig"
)

// atOnce is how many programs are downloaded at the same time.
const atOnce = 16

// downloadTime is how long one download may take.
const downloadTime = 10 * time.Minute

//go:embed install.sh
var script string

// kinds are the kinds of machines that there are programs for.
var kinds = []string{"amd64", "arm64"}

// Handler serves Prefix.
type Handler struct {
	dir   string
	turns chan struct{}

	mu      sync.Mutex
	digests map[string]digest // by path
}

// digest is that of a file, as long as it is the same file.
type digest struct {
	size    int64
	changed time.Time
	sum     string
}

// New creates a Handler. dir has the programs, named deckhand-node-linux-amd64 and so
// on; without dir, the deckhand-node beside this program is served to machines of the
// same kind.
func New(dir string) *Handler {
	return &Handler{dir: dir, turns: make(chan struct{}, atOnce), digests: map[string]digest{}}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, Prefix)
	kind, program := strings.CutPrefix(name, programName)
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
	case name == scriptName:
		w.Header().Set("Content-Type", "text/x-shellscript; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = io.WriteString(w, h.script()) // the client sees a script that is cut off
	case program:
		h.program(w, r, kind)
	case name == sumsName || name == signatureName:
		h.signed(w, r, name)
	default:
		http.NotFound(w, r)
	}
}

// script returns the script with the digests of the programs that there are.
func (h *Handler) script() string {
	var cases strings.Builder
	for _, kind := range kinds {
		if _, sum, err := h.open(kind, false); err == nil {
			fmt.Fprintf(&cases, "  %s) sum=%s ;;\n", kind, sum)
		}
	}
	if cases.Len() == 0 {
		cases.WriteString("  none) ;;\n")
	}
	return strings.Replace(script, "#DIGESTS#\n", cases.String(), 1)
}

func (h *Handler) program(w http.ResponseWriter, r *http.Request, kind string) {
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many downloads at the same time; try again", http.StatusServiceUnavailable)
		return
	}
	file, sum, err := h.open(kind, true)
	if err != nil {
		http.Error(w, "this hub has no deckhand-node for linux/"+kind, http.StatusNotFound)
		return
	}
	defer file.Close()
	// A client that reads nothing must not keep its turn. Not every writer can do it.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(downloadTime))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Etag", `"`+sum+`"`)
	http.ServeContent(w, r, "", time.Time{}, file)
}

// open returns the program of a kind of machine, opened if wanted, and its digest.
func (h *Handler) open(kind string, opened bool) (_ *os.File, sum string, err error) {
	path, err := h.path(kind)
	if err != nil {
		return nil, "", err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil || !opened {
			_ = file.Close() // it was only read
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.digests[path]; known.size == info.Size() && known.changed.Equal(info.ModTime()) {
		return file, known.sum, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return nil, "", err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, "", err
	}
	sum = hex.EncodeToString(hash.Sum(nil))
	h.digests[path] = digest{size: info.Size(), changed: info.ModTime(), sum: sum}
	return file, sum, nil
}

// path returns where the program of a kind of machine is.
func (h *Handler) path(kind string) (string, error) {
	for _, known := range kinds {
		switch {
		case known != kind:
		case h.dir != "":
			return filepath.Join(h.dir, programName+kind), nil
		case kind == runtime.GOARCH:
			self, err := os.Executable()
			return filepath.Join(filepath.Dir(self), "deckhand-node"), err
		}
	}
	return "", os.ErrNotExist
}
