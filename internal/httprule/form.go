package httprule

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
)

// MaxForm is the size of the largest URL-encoded form that OverrideForm reads, in
// bytes.
const MaxForm = 1 << 20

// OverrideForm refuses a request with a form that has the parameter _method, by
// which a server may read another method than that of the request line. It
// replaces r.Body and returns its errors in two ways:
//
//   - A URL-encoded form is read at once, of at most MaxForm bytes. The error is
//     returned.
//   - Multipart forms may be long, and are read as they pass: the body's Read
//     returns the error, before the name of the parameter has been passed on.
//
// Other bodies are not looked into: frameworks that take _method from JSON, such
// as Laravel, need a rule for POST that takes this into account.
func OverrideForm(r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	// A server may know the type of a value that we cannot parse.
	value := strings.ToLower(r.Header.Get("Content-Type"))
	media, _, err := mime.ParseMediaType(value)
	if err != nil && value != "" {
		media, _, _ = strings.Cut(value, ";")
		media = strings.TrimSpace(media)
	}
	encoded := r.Header.Get("Content-Encoding")
	switch {
	case !strings.HasPrefix(media, "multipart/") && media != "application/x-www-form-urlencoded":
		return nil
	case encoded != "" && !strings.EqualFold(encoded, "identity"):
		return fmt.Errorf("a form with the content encoding %.40q cannot be read; send it without one", encoded)
	case strings.HasPrefix(media, "multipart/"):
		r.Body = &multipartBody{body: r.Body}
		return nil
	}
	form, err := io.ReadAll(io.LimitReader(r.Body, MaxForm+1))
	if err != nil {
		return fmt.Errorf("read the form: %w", err)
	}
	if len(form) > MaxForm {
		return fmt.Errorf("the form has more than %d bytes; send a smaller one, or multipart/form-data", MaxForm)
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(form), r.Body}
	return overrideQuery(string(form), "form")
}

// maxDisposition is how long the header of a part may be, from its disposition
// to its end.
const maxDisposition = 4 << 10

// multipartBody returns an error instead of the header of a part whose name
// replaces the method. It does not parse the form, which servers do in many
// ways: it looks for dispositions wherever they are, and so may also refuse a
// file that has one in it.
type multipartBody struct {
	body io.ReadCloser
	held []byte // read, and not passed on: held[:free] is examined
	free int
	err  error // of body, or the refusal
	all  bool  // err is the refusal, or everything is examined
}

func (m *multipartBody) Close() error { return m.body.Close() }

func (m *multipartBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for m.free == 0 {
		if m.all {
			return 0, m.err
		}
		if m.err == nil {
			buf := make([]byte, maxDisposition)
			n, err := m.body.Read(buf)
			m.held, m.err = append(m.held, buf[:n]...), err
		}
		m.examine()
	}
	n := copy(p, m.held[:m.free])
	m.held, m.free = m.held[n:], m.free-n
	return n, nil
}

const disposition = "content-disposition"

func (m *multipartBody) examine() {
	lower := bytes.ToLower(m.held)
	for at := 0; ; {
		i := bytes.Index(lower[at:], []byte(disposition))
		if i < 0 {
			break
		}
		begin := at + i
		header := m.held[begin:min(len(m.held), begin+maxDisposition)]
		end := endOfHeader.FindIndex(header)
		if end == nil && len(header) < maxDisposition && m.err == nil {
			m.free = begin // to be examined when there is more
			return
		}
		if end != nil {
			header = header[:end[0]]
		}
		if err := checkDisposition(header); err != nil {
			m.free, m.held, m.err, m.all = begin, m.held[:begin], err, true
			return
		}
		at = begin + len(disposition)
	}
	m.free = len(m.held)
	if m.err != nil {
		m.all = true
		return
	}
	for n := min(len(disposition)-1, len(lower)); n > 0; n-- {
		if strings.HasPrefix(disposition, string(lower[len(lower)-n:])) {
			m.free -= n
			return
		}
	}
}

var (
	endOfHeader = regexp.MustCompile(`\r?\n\r?\n|\r\r`)
	partName    = regexp.MustCompile(`(?i)(?:^|[^a-z0-9_-])name\s*(\*?)[^=]*=\s*(?:"([^"]*)"|'([^']*)'|([^;\s]*))`)
)

// checkDisposition checks the names in a part's header.
func checkDisposition(header []byte) error {
	for _, found := range partName.FindAllSubmatch(header, -1) {
		name := string(found[2]) + string(found[3]) + string(found[4])
		switch {
		case len(found[1]) > 0:
			return errors.New("a part of the multipart form has the parameter name*, which RFC 7578 does not have; write name")
		case strings.ContainsAny(name, `\%`):
			return fmt.Errorf("the name %.40q of a part of the multipart form is encoded; write it as it is", name)
		case overridesMethod(name):
			return fmt.Errorf("the parameter %.40q of the form replaces the method of the request line; leave it out and send the request that is meant", name)
		}
	}
	return nil
}
