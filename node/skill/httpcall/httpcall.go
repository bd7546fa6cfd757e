// Package httpcall makes HTTP requests for agents, inside the jail and through
// the node's proxy, which decides which hosts are allowed. The size of a
// response is bounded; a longer one is written to a file.
package httpcall

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// Args are what can be asked.
type Args struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	// Body is sent as it is.
	Body string `json:"body"`
	// TimeoutSeconds bounds the whole request; 0 for 60, or 600 of a download.
	TimeoutSeconds int `json:"timeout_seconds"`
	// MaxBytes limits the answer; 0 means 16 KiB.
	MaxBytes int `json:"max_bytes"`
}

// DownloadArgs are what can be asked of a download.
type DownloadArgs struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	// Path is where it goes, below the working folder.
	Path string `json:"path"`
	// TimeoutSeconds bounds the whole request; 0 for 600.
	TimeoutSeconds int `json:"timeout_seconds"`
	// MaxFileBytes bounds the file; 0 for 100 MB.
	MaxFileBytes int64 `json:"max_file_bytes"`
}

const (
	defaultTimeout   = time.Minute
	downloadTimeout  = 10 * time.Minute
	defaultAnswer    = 16 << 10
	defaultFile      = 100_000_000
	maxRedirects     = 10
	maxHeaderBytes   = 300
	maxProblemBytes  = 2000
	userAgent        = "deckhand"
	copyBuffer       = 64 << 10
	sniffed          = 1024
	folderMode       = 0o755
	fileMode         = 0o644
	temporaryPattern = ".%s.part-%s"
)

// shownHeaders are the response headers that an agent may need.
var shownHeaders = []string{"Content-Type", "Location", "ETag", "Last-Modified", "Retry-After", "Link", "WWW-Authenticate"}

// Get makes a GET.
func Get(ctx context.Context, args Args) (*report.Answer, int64, error) {
	return call(ctx, http.MethodGet, args)
}

// Post makes a POST.
func Post(ctx context.Context, args Args) (*report.Answer, int64, error) {
	return call(ctx, http.MethodPost, args)
}

// Put makes a PUT.
func Put(ctx context.Context, args Args) (*report.Answer, int64, error) {
	return call(ctx, http.MethodPut, args)
}

// Delete makes a DELETE.
func Delete(ctx context.Context, args Args) (*report.Answer, int64, error) {
	return call(ctx, http.MethodDelete, args)
}

// do sends a request. Each redirect is a request of its own to the proxy.
func do(ctx context.Context, method, to string, headers map[string]string, body string) (*http.Response, error) {
	if parsed, err := url.Parse(to); err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return nil, errors.New("url: write a whole address, such as https://api.example.com/items")
	}
	req, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	req.Header.Set("User-Agent", userAgent)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		if strings.EqualFold(name, "Host") {
			return nil, errors.New("headers: the host is the address's and cannot be another")
		}
		req.Header.Set(name, value)
	}
	client := &http.Client{
		Transport: &http.Transport{Proxy: proxyOf(ctx)},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return fmt.Errorf("it was redirected more than %d times", maxRedirects)
			}
			return nil
		},
	}
	return client.Do(req)
}

func call(ctx context.Context, method string, args Args) (*report.Answer, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(time.Duration(args.TimeoutSeconds)*time.Second, defaultTimeout))
	defer cancel()
	res, err := do(ctx, method, args.URL, args.Headers, args.Body)
	if err != nil {
		return nil, 0, problem(method, err)
	}
	defer res.Body.Close()
	out := report.New(cmp.Or(args.MaxBytes, defaultAnswer))
	head(out, res, args.URL)
	room := out.Room() - 1
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(room)+1))
	if err != nil {
		out.Note("the rest could not be read: %s", report.Clean([]byte(err.Error()), maxHeaderBytes))
	}
	read := int64(len(body))
	whole := len(body) <= room && err == nil
	body = body[:min(len(body), room)]
	switch {
	case len(body) == 0:
		out.Note("it has no body")
	case !isText(body):
		out.Note("the body is no text: have it with http_download")
	default:
		out.Line("%s", text(body))
		if !whole {
			out.Note("the first %d bytes%s: have all of it with http_download", len(body), of(res))
		}
	}
	return out, read, nil
}

// head writes what is said before the body.
func head(out *report.Answer, res *http.Response, asked string) {
	out.Line("HTTP %s", report.Clean([]byte(res.Status), maxHeaderBytes))
	if at := res.Request.URL.String(); at != asked {
		out.Line("address after redirects: %s", report.Clean([]byte(at), maxHeaderBytes))
	}
	for _, name := range shownHeaders {
		for _, value := range res.Header.Values(name) {
			out.Line("%s: %s", strings.ToLower(name), report.Clean([]byte(value), maxHeaderBytes))
		}
	}
	out.Line("")
}

func of(res *http.Response) string {
	if res.ContentLength < 0 {
		return ""
	}
	return fmt.Sprintf(" of %d", res.ContentLength)
}

// isText reports whether the beginning of a body can be read.
func isText(body []byte) bool {
	begin := body[:min(len(body), sniffed)]
	for len(begin) > 0 {
		r, size := utf8.DecodeRune(begin)
		if r == 0 || r == utf8.RuneError && size == 1 && len(begin) >= utf8.UTFMax {
			return false
		}
		begin = begin[size:]
	}
	return true
}

// text returns a body as it can be shown: no bytes that a terminal, or a model,
// would take for something else.
func text(body []byte) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		if r == '\r' {
			return -1
		}
		return '·'
	}, strings.ToValidUTF8(string(body), "·"))
}

// problem says why there is no response, and whether the request may have taken
// effect nevertheless.
func problem(method string, err error) error {
	said := report.Clean([]byte(err.Error()), maxProblemBytes)
	var wrong *url.Error
	if !errors.As(err, &wrong) || method == http.MethodGet {
		return errors.New(said)
	}
	return fmt.Errorf("%s; the request may have been executed nevertheless", said)
}

// Download gets a body into a file, whole or not at all.
func Download(ctx context.Context, args DownloadArgs) (*report.Answer, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(time.Duration(args.TimeoutSeconds)*time.Second, downloadTimeout))
	defer cancel()
	most := cmp.Or(args.MaxFileBytes, defaultFile)
	root, err := os.OpenRoot(".")
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	res, err := do(ctx, http.MethodGet, args.URL, args.Headers, "")
	if err != nil {
		return nil, 0, problem(http.MethodGet, err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		body, _ := io.ReadAll(io.LimitReader(res.Body, sniffed))
		return nil, int64(len(body)), fmt.Errorf("HTTP %s: %s", res.Status, report.Clean(bytes.ReplaceAll(body, []byte("\n"), []byte(" ")), sniffed))
	}
	if res.ContentLength > most {
		return nil, 0, fmt.Errorf("it has %d bytes: at most %d are kept; raise max_file_bytes", res.ContentLength, most)
	}
	if err := root.MkdirAll(path.Dir(path.Clean(args.Path)), folderMode); err != nil {
		return nil, 0, fmt.Errorf("path: %w", err)
	}
	temporary := path.Join(path.Dir(path.Clean(args.Path)), fmt.Sprintf(temporaryPattern, path.Base(args.Path), rand.Text()))
	size, sum, err := save(root, temporary, res.Body, most)
	if err == nil {
		err = root.Rename(temporary, args.Path)
	}
	if err != nil {
		return nil, size, errors.Join(err, ignoreMissing(root.Remove(temporary)))
	}
	out := report.New(0)
	head(out, res, args.URL)
	out.Line("saved %s: %d bytes, sha256 %x", report.Clean([]byte(args.Path), maxHeaderBytes), size, sum)
	return out, size, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// save writes a file of at most so many bytes.
func save(root *os.Root, name string, from io.Reader, most int64) (size int64, sum []byte, err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return 0, nil, fmt.Errorf("path: %w", err)
	}
	hash := sha256.New()
	size, err = io.CopyBuffer(io.MultiWriter(f, hash), io.LimitReader(from, most+1), make([]byte, copyBuffer))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && size > most {
		err = fmt.Errorf("it has more than %d bytes, and none were kept; raise max_file_bytes", most)
	}
	return size, hash.Sum(nil), err
}

// secretKey is the context's key of WithProxySecret.
type secretKey struct{}

// WithProxySecret has requests prove to the egress proxy that they are a tool's; empty for those
// that are not.
func WithProxySecret(ctx context.Context, secret string) context.Context {
	return context.WithValue(ctx, secretKey{}, secret)
}

// proxyOf returns the proxy of the environment, with the secret as the password.
func proxyOf(ctx context.Context) func(*http.Request) (*url.URL, error) {
	secret, _ := ctx.Value(secretKey{}).(string)
	return func(req *http.Request) (*url.URL, error) {
		to, err := http.ProxyFromEnvironment(req)
		if to == nil || secret == "" {
			return to, err
		}
		with := *to
		with.User = url.UserPassword(to.User.Username(), secret)
		return &with, err
	}
}
