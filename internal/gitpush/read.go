package gitpush

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// The content types of a push and of its report.
const (
	RequestType = "application/x-git-receive-pack-request"
	ReportType  = "application/x-git-receive-pack-result"
)

// Is reports whether a request could be a push, so that it must be read by
// ReadRequest before it may pass. The announcement of references that precedes a
// push (GET .../info/refs?service=git-receive-pack) changes nothing and is none.
// Pushes by WebDAV, which git falls back to with servers that know no other protocol,
// are not recognised: they consist of PROPFIND, MKCOL, LOCK, PUT and MOVE.
func Is(req *http.Request) bool {
	if req.Method == http.MethodGet || req.Method == http.MethodHead || req.Method == http.MethodOptions {
		return false
	}
	if strings.Contains(strings.ToLower(req.URL.Path), "git-receive-pack") {
		return true
	}
	return slices.ContainsFunc(req.Header.Values("Content-Type"), func(v string) bool {
		return strings.Contains(strings.ToLower(v), "git-receive-pack")
	})
}

// ReadRequest reads the head of a push, up to the pack. The push owns the request's
// body from then on.
func ReadRequest(req *http.Request, limits Limits) (*Push, error) {
	if req.Method != http.MethodPost {
		return nil, malformed("the method is %.20q instead of POST", req.Method)
	}
	types := req.Header.Values("Content-Type")
	if len(types) != 1 {
		return nil, malformed("the header field Content-Type occurs %d times", len(types))
	}
	if kind, _, err := mime.ParseMediaType(types[0]); err != nil || kind != RequestType {
		return nil, &Error{"malformed push: the content type is not " + RequestType, http.StatusUnsupportedMediaType}
	}
	encodings := req.Header.Values("Content-Encoding")
	if len(encodings) > 1 {
		return nil, malformed("the header field Content-Encoding occurs %d times", len(encodings))
	}
	var body io.Reader = req.Body
	if len(encodings) == 1 {
		switch strings.ToLower(encodings[0]) {
		case "gzip", "x-gzip":
			z, err := gzip.NewReader(req.Body)
			if err != nil {
				return nil, malformed("the body is not in gzip as its header says")
			}
			body = z
		default:
			return nil, &Error{"malformed push: the content encoding is not gzip", http.StatusUnsupportedMediaType}
		}
	}
	push, err := Read(body, limits)
	if err != nil {
		return nil, err
	}
	push.closer = req.Body
	push.length = req.ContentLength
	push.chunked = req.ContentLength < 0 || body != req.Body
	return push, nil
}

// Read reads the head of a push from its decompressed body, up to the pack.
func Read(body io.Reader, limits Limits) (*Push, error) {
	limits = limits.complete()
	p := &Push{pack: bufio.NewReaderSize(body, 64<<10), chunked: true}
	r := &headReader{limited: io.LimitedReader{R: p.pack, N: int64(limits.Head)}}
	r.lines = pktline.NewScanner(io.TeeReader(&r.limited, &r.head))
	if err := p.readHead(r, limits); err != nil {
		return nil, err
	}
	p.Head = r.head.Bytes()
	if !p.HasPack() {
		switch _, err := p.pack.Peek(1); {
		case err == nil:
			return nil, malformed("data follows although no objects are sent")
		case !errors.Is(err, io.EOF):
			return nil, readError(err)
		}
	}
	return p, nil
}

// headReader reads the pkt-lines before the pack, and keeps their bytes.
type headReader struct {
	lines   *pktline.Scanner
	limited io.LimitedReader
	head    bytes.Buffer
}

// next returns the next line, which is valid until the next call, or nil for a flush
// packet.
func (r *headReader) next() ([]byte, error) {
	if !r.lines.Scan() {
		err := r.lines.Err()
		var notice *pktline.ErrorLine // a line that begins with ERR is nothing special here
		switch {
		case errors.As(err, &notice):
			return r.lines.Bytes(), nil
		case r.limited.N <= 0:
			return nil, tooLarge("there are more than %d bytes before the pack", r.head.Len())
		case err == nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
			return nil, malformed("it ends within the list of references")
		case errors.Is(err, pktline.ErrInvalidPktLen):
			return nil, malformed("the length of a pkt-line is not valid")
		}
		return nil, readError(err)
	}
	if line := r.lines.Bytes(); len(line) > 0 {
		return line, nil
	}
	return nil, nil
}

func readError(err error) error {
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return malformed("the body is not in gzip as its header says")
	}
	return err
}

func (p *Push) readHead(r *headReader, limits Limits) error {
	line, err := r.next()
	if err != nil {
		return err
	}
	// Shallow lines come first, and before the capabilities say which hash is used.
	for ; bytes.HasPrefix(line, []byte("shallow ")); line, err = r.next() {
		p.Shallow = append(p.Shallow, strings.TrimSuffix(string(line[len("shallow "):]), "\n"))
		if len(p.Shallow) > limits.Commits {
			return tooLarge("there are more than %d shallow commits", limits.Commits)
		}
	}
	if err != nil {
		return err
	}
	if line == nil { // a probe, or nothing to push
		return p.checkShallow()
	}
	first, list, ok := strings.Cut(string(line), "\x00")
	if !ok {
		return malformed("the first reference has no capabilities")
	}
	if err := p.readCapabilities(strings.TrimSuffix(list, "\n")); err != nil {
		return err
	}
	if err := p.checkShallow(); err != nil {
		return err
	}
	if first == "push-cert" {
		err = p.readCertificate(r, limits)
	} else {
		err = p.readCommands(first, r, limits)
	}
	if err != nil || !p.Has("push-options") {
		return err
	}
	return p.readOptions(r)
}

func (p *Push) checkShallow() error {
	format := p.Format
	if len(p.Capabilities) == 0 && len(p.Shallow) > 0 && len(p.Shallow[0]) == 2*SHA256.Size() {
		format = SHA256
	}
	for _, id := range p.Shallow {
		if _, ok := format.parse(id); !ok {
			return malformed("a shallow line has no %s hash", format)
		}
	}
	return nil
}

// Capabilities that are known, those that end with = with any value. An unknown one
// is refused, because a server that knows it could read the request in another way.
var knownCapabilities = []string{
	"report-status", "report-status-v2", "delete-refs", "side-band-64k", "quiet", "atomic",
	"ofs-delta", "no-thin", "push-options", "agent=", "session-id=", "object-format=",
}

func (p *Push) readCapabilities(list string) error {
	seen := map[string]bool{}
	for word := range strings.SplitSeq(list, " ") {
		if word == "" {
			continue
		}
		for _, c := range []byte(word) {
			if c <= ' ' || c > '~' {
				return malformed("a capability contains the byte %#02x", c)
			}
		}
		name, value, valued := strings.Cut(word, "=")
		if valued {
			name += "="
		}
		if !slices.Contains(knownCapabilities, name) {
			return malformed("the capability %.40q is not known here", word)
		}
		if seen[name] {
			return malformed("the capability %.40q occurs twice", word)
		}
		seen[name] = true
		if name == "object-format=" {
			switch value {
			case "sha1":
			case "sha256":
				p.Format = SHA256
			default:
				return malformed("the object format %.20q is not known here", value)
			}
		}
		p.Capabilities = append(p.Capabilities, word)
	}
	return nil
}

// readCommands reads the updates, of which the first line is given, up to the flush
// packet.
func (p *Push) readCommands(first string, r *headReader, limits Limits) error {
	refs := map[string]bool{}
	for command := first; ; {
		if err := p.addUpdate(command, refs, limits); err != nil {
			return err
		}
		line, err := r.next()
		if err != nil {
			return err
		}
		if line == nil {
			return nil
		}
		command = string(line)
	}
}

// addUpdate parses a line such as "OLD NEW REF", with or without a newline.
func (p *Push) addUpdate(command string, refs map[string]bool, limits Limits) error {
	if len(p.Updates) >= limits.Updates {
		return tooLarge("there are more than %d references", limits.Updates)
	}
	command = strings.TrimSuffix(command, "\n")
	switch { // lines that a server would read in another way than as an update
	case strings.HasPrefix(command, "shallow "):
		return malformed("a shallow line follows an update")
	case strings.HasPrefix(command, "push-cert"):
		return malformed("a push certificate follows an update")
	case strings.ContainsRune(command, 0):
		return malformed("capabilities are on a line that is not the first")
	}
	digits := 2 * p.Format.Size()
	if len(command) < 2*digits+3 || command[digits] != ' ' || command[2*digits+1] != ' ' {
		return malformed("update %d is not two %s hashes and a reference", len(p.Updates)+1, p.Format)
	}
	u := Update{Old: command[:digits], New: command[digits+1 : 2*digits+1], Ref: command[2*digits+2:]}
	for _, id := range []*string{&u.Old, &u.New} {
		if _, ok := p.Format.parse(*id); !ok {
			return malformed("update %d is not two %s hashes and a reference", len(p.Updates)+1, p.Format)
		}
		if *id == p.Format.Zero() {
			*id = ""
		}
	}
	if u.Old == "" && u.New == "" {
		return malformed("update %d neither has an old nor a new object", len(p.Updates)+1)
	}
	if err := CheckRef(u.Ref); err != nil {
		return malformed("the reference %.200q is not valid: %v", u.Ref, err)
	}
	if refs[u.Ref] {
		return malformed("the reference %.200q is updated twice", u.Ref)
	}
	refs[u.Ref] = true
	p.Updates = append(p.Updates, u)
	return nil
}

func (p *Push) readOptions(r *headReader) error {
	for {
		line, err := r.next()
		if err != nil || line == nil {
			return err
		}
		option := strings.TrimSuffix(string(line), "\n")
		if strings.ContainsAny(option, "\x00\n") || !utf8.ValidString(option) {
			return malformed("a push option is not one line of UTF-8")
		}
		p.Options = append(p.Options, option)
	}
}
