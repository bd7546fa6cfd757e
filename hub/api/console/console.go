// Package console serves the web console that is built into the hub. Console is an HTTP
// handler. Its files are static: the console fetches its data over the API with the
// caller's session, so any hub can serve it. A hub without a built console serves a page
// that says so.
//
// Assets carry the digest of their content in their names and are cached by browsers
// without limit; index.html is revalidated at each request, and contains the base path of
// everything else.
package console

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Config is what a Console is made with.
type Config struct {
	// Files are the built console's; see package ui.
	Files fs.FS
	// BasePath is the path below which browsers find the hub, for example "/deckhand";
	// empty for the root, or for what a proxy sets in X-Forwarded-Prefix.
	BasePath string
}

// Console serves the files of the console.
type Console struct {
	files fs.FS
	base  string
	// index is index.html; nil if the console was not built.
	index []byte
	etags map[string]string
}

const (
	indexFile = "index.html"
	// baseTag is the tag of index.html that the path goes into.
	baseTag = `<base href="/" />`
	assets  = "assets/"
	// packed ends the name of a file that is compressed with gzip.
	packed = ".gz"

	forEver   = "public, max-age=31536000, immutable"
	askAgain  = "private, no-cache"
	notBuilt  = "This hub was built without its console: build it with `make build`, which needs Node.js 20 or later and npm.\nThe API and the command line work without it.\n"
	plainText = "text/plain; charset=utf-8"
)

// policy keeps whatever an agent prints from becoming code: scripts come from
// this hub's files only, and never from the page. Styles may be written into
// the page, as the terminal and the editor do.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self'; " +
	"connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// types are by extension, since those of the machine that serves may differ.
var types = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
	".woff2": "font/woff2", ".json": "application/json", ".map": "application/json", ".webmanifest": "application/manifest+json",
	".txt": plainText, ".ico": "image/x-icon",
}

// basePath matches a path that needs no escaping in a page and in a header.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9][A-Za-z0-9._~-]*)+$`)

// New creates a Console. It is no error if the console was not built: requests then get a
// page that says so.
func New(cfg Config) (*Console, error) {
	base := strings.TrimRight(cfg.BasePath, "/")
	if base != "" && !basePath.MatchString(base) {
		return nil, fault.New(fault.Invalid, "base-path is %q", cfg.BasePath).
			WithFix("use a path of letters, digits, dots and dashes, for example /deckhand")
	}
	c := &Console{files: cfg.Files, base: base, etags: map[string]string{}}
	var err error
	if c.index, err = fs.ReadFile(cfg.Files, indexFile); errors.Is(err, fs.ErrNotExist) {
		return c, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the console's %s: %w", indexFile, err)
	}
	if !strings.Contains(string(c.index), baseTag) {
		return nil, fmt.Errorf("the console's %s has no %s", indexFile, baseTag)
	}
	return c, fs.WalkDir(cfg.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(cfg.Files, name)
		if err != nil {
			return err
		}
		c.etags[name] = etag(data)
		if text, ok := strings.CutSuffix(name, packed); ok && c.etags[text] == "" {
			// Of another content than the compressed file, by HTTP's rules.
			c.etags[text] = etag(append(data, "text"...))
		}
		return nil
	})
}

func etag(data []byte) string {
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// Under returns a handler that finds next both at the root and below the base
// path, for proxies that leave the path as it is.
func (c *Console) Under(next http.Handler) http.Handler {
	if c.base == "" {
		return next
	}
	below := http.StripPrefix(c.base, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == c.base:
			http.Redirect(w, r, c.base+"/", http.StatusPermanentRedirect)
		case strings.HasPrefix(r.URL.Path, c.base+"/"):
			below.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ServeHTTP serves a file, or index.html for the paths of the console's pages.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "The console is read with GET.", http.StatusMethodNotAllowed)
		return
	}
	if c.index == nil {
		h.Set("Content-Type", plainText)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, notBuilt)
		return
	}
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	switch _, there := c.etags[name]; {
	case there && types[path.Ext(name)] != "":
		c.file(w, r, name)
	// A procedure that there is not, or a file of another build, is no page.
	case strings.HasPrefix(name, assets), strings.HasPrefix(name, "deckhand."):
		h.Set("Cache-Control", "no-store")
		http.NotFound(w, r)
	default:
		c.page(w, r)
	}
}

// page serves index.html, with the base path.
func (c *Console) page(w http.ResponseWriter, r *http.Request) {
	base := c.base
	if forwarded := strings.TrimRight(r.Header.Get("X-Forwarded-Prefix"), "/"); base == "" && basePath.MatchString(forwarded) {
		base = forwarded
	}
	page := []byte(strings.Replace(string(c.index), baseTag, `<base href="`+html.EscapeString(base)+`/" />`, 1))
	h := w.Header()
	h.Set("Cache-Control", askAgain)
	h.Set("Vary", "X-Forwarded-Prefix")
	h.Set("Content-Type", "text/html; charset=utf-8")
	if unchanged(w, r, etag(page)) {
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(page)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(page)
	}
}

// file serves a file, in the best available encoding that the caller accepts.
func (c *Console) file(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	h.Set("Content-Type", types[path.Ext(name)])
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", askAgain)
	if strings.HasPrefix(name, assets) {
		h.Set("Cache-Control", forEver)
	}
	tag := c.etags[name]
	for _, e := range []struct{ name, suffix string }{{"br", ".br"}, {"gzip", packed}} {
		if packedTag, there := c.etags[name+e.suffix]; there && accepts(r.Header.Get("Accept-Encoding"), e.name) {
			h.Set("Content-Encoding", e.name)
			name += e.suffix
			tag = packedTag
			break
		}
	}
	if unchanged(w, r, tag) {
		return
	}
	file, err := c.open(name)
	if err != nil {
		http.Error(w, "The file cannot be read.", http.StatusInternalServerError)
		return
	}
	defer file.Close()
	if info, ok := file.(fs.File); ok {
		if info, err := info.Stat(); err == nil {
			h.Set("Content-Length", strconv.FormatInt(info.Size(), 10))
		}
	}
	if r.Method == http.MethodGet {
		_, _ = io.Copy(w, file)
	}
}

// open opens a file. Of most texts only the compressed forms are in the program: the text
// itself, which hardly any caller asks for, is made from one.
func (c *Console) open(name string) (io.ReadCloser, error) {
	file, err := c.files.Open(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if file, err = c.files.Open(name + packed); err != nil {
		return nil, err
	}
	text, err := gzip.NewReader(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return unpacked{text, file}, nil
}

// unpacked is the text of a compressed file.
type unpacked struct {
	*gzip.Reader

	file fs.File
}

func (u unpacked) Close() error { return errors.Join(u.Reader.Close(), u.file.Close()) }

// unchanged sets the ETag, and responds with 304 if the caller has that version already.
func unchanged(w http.ResponseWriter, r *http.Request, tag string) bool {
	w.Header().Set("ETag", tag)
	for known := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if known = strings.TrimPrefix(strings.TrimSpace(known), "W/"); known == tag || known == "*" {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	return false
}

// accepts reports whether an Accept-Encoding names an encoding and does not refuse
// it with q=0.
func accepts(header, encoding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), encoding) {
			continue
		}
		q, ok := strings.CutPrefix(strings.TrimSpace(weight), "q=")
		value, err := strconv.ParseFloat(q, 64)
		return !ok || err != nil || value > 0
	}
	return false
}
