package rest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

const (
	// taggedUpTo is the length of the longest response that has an ETag: it is kept in
	// memory until its digest is known.
	taggedUpTo = 1 << 20
	// compressFrom is the length from which a response is worth compressing.
	compressFrom = 16 << 10
)

// response turns what vanguard writes into what the caller gets: an error into a problem,
// and a short answer to a GET into one with an ETag.
type response struct {
	http.ResponseWriter

	r      *http.Request
	id     string // of the request
	status int
	held   bytes.Buffer
	// through reports that the response is not held back any more.
	through bool
	zip     *gzip.Writer
}

// Unwrap lets deadlines be set.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush does nothing: a response is sent when it is complete.
func (w *response) Flush() {}

// WriteHeader keeps the status until it is known what is sent.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write writes a part of the body.
func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.through {
		return w.send(p)
	}
	if w.status < http.StatusBadRequest && (w.r.Method != http.MethodGet || w.held.Len()+len(p) > taggedUpTo) {
		w.begin(w.held.Len() + len(p))
		if _, err := w.send(w.held.Bytes()); err != nil {
			return 0, err
		}
		w.held = bytes.Buffer{}
		return w.send(p)
	}
	return w.held.Write(p)
}

// begin sends the headers of a body that begins with n bytes.
func (w *response) begin(n int) {
	w.through = true
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "private, no-cache")
	}
	if n >= compressFrom && acceptsGzip(w.r) {
		h.Set("Content-Encoding", "gzip")
		h.Del("Content-Length")
		w.zip = gzip.NewWriter(w.ResponseWriter)
	}
	w.ResponseWriter.WriteHeader(w.status)
}

func (w *response) send(p []byte) (int, error) {
	if w.zip != nil {
		return w.zip.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// finish sends what was held back.
func (w *response) finish() {
	switch {
	case w.through:
	case w.status == 0:
		return // nothing was written: the connection is gone
	case w.status >= http.StatusBadRequest:
		problemFrom(w.status, w.held.Bytes(), w.id).write(w.ResponseWriter)
		return
	default:
		body := w.held.Bytes()
		if w.r.Method == http.MethodGet {
			sum := sha256.Sum256(body)
			tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`
			w.Header().Set("Etag", tag)
			if matches(w.r.Header.Values("If-None-Match"), tag) {
				w.Header().Del("Content-Type")
				w.Header().Set("Cache-Control", "private, no-cache")
				w.ResponseWriter.WriteHeader(http.StatusNotModified)
				return
			}
			if len(body) < compressFrom || !acceptsGzip(w.r) {
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			}
		}
		w.begin(len(body))
		_, _ = w.send(body) // the connection is gone
	}
	if w.zip != nil {
		_ = w.zip.Close()
	}
}

// matches reports whether a header If-None-Match names a tag. The body may have been sent
// compressed, so the comparison is the weak one.
func matches(header []string, tag string) bool {
	for _, list := range header {
		for one := range strings.SplitSeq(list, ",") {
			if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
				return true
			}
		}
	}
	return false
}

// acceptsGzip reports whether a caller takes compressed responses.
func acceptsGzip(r *http.Request) bool {
	for _, list := range r.Header.Values("Accept-Encoding") {
		for one := range strings.SplitSeq(list, ",") {
			name, quality, _ := strings.Cut(strings.TrimSpace(one), ";")
			if strings.EqualFold(strings.TrimSpace(name), "gzip") && strings.ReplaceAll(quality, " ", "") != "q=0" {
				return true
			}
		}
	}
	return false
}
