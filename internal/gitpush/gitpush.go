// Package gitpush reads and judges the pushes of git that pass through an HTTP
// proxy (git's smart HTTP protocol, see gitprotocol-http(5), gitprotocol-pack(5) and
// gitformat-pack(5)).
//
// A Push is read from the body of POST .../git-receive-pack: its reference updates,
// capabilities, push options and certificate, and the pack as a stream. Rules say
// which references may be created, updated, force-updated and deleted. A Judge decides
// a push by rules. Refuse writes the refusals in git's own report format, so that an
// unmodified git prints them for each reference.
//
//	push, err := gitpush.ReadRequest(r, gitpush.Limits{})
//	refusals, err := judge.Judge(r.Context(), push)
//	if len(refusals) > 0 {
//		gitpush.Refuse(w, push, refusals)
//	} else {
//		push.Forward(request) // the bytes that were judged, and no others
//	}
//
// What is guaranteed:
//
//   - The bytes that are forwarded are those that were parsed. A body in gzip is
//     forwarded decompressed.
//   - A request is refused if any part of its head is unusual enough that a server
//     could read something else in it: unknown capabilities, capabilities on a later
//     line, repeated references, commands beside a push certificate, names that git
//     would not accept.
//   - An update of an existing reference counts as forced unless the old commit is
//     proven to be an ancestor of the new one. A proof consists of commit objects
//     whose hashes were computed here (SHA-1 with collision detection, or SHA-256).
//     They come from the pack of the push itself, and from Judge.Commit if it is set.
//   - Memory is bounded by Limits. The pack is read only when the decision depends on
//     it, and then passes through the Spool. Of its objects, only the parents of
//     commits are kept.
//
// What is not known here: the state of the server. That a reference is at the old
// value that the push names, and that a reference to be created does not exist, is
// checked by the server when it applies the update. A reference that is a symbolic
// one on the server updates its target.
//
// A request that cannot be parsed or whose pack is damaged is an *Error. Other errors
// are those of reading the body, of the spool and of Judge.Commit. No error contains
// the content of an object.
//
// Of go-git, the scanner of pkt-lines, the side-band writer, the application of deltas
// and the SHA-1 with collision detection are used. Its decoder of update requests
// does not know push certificates, push options and SHA-256, and accepts unknown
// capabilities. Its pack scanner and parser read SHA-1 packs only, keep an entry for
// each object, and need the bases that a thin pack leaves out.
package gitpush

import (
	"bufio"
	"bytes"
	"crypto"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	githash "github.com/go-git/go-git/v5/plumbing/hash"
)

// Format is the hash function of a repository.
type Format uint8

// The formats that git has.
const (
	SHA1 Format = iota
	SHA256
)

// String returns the name that git has for the format: sha1 or sha256.
func (f Format) String() string {
	if f == SHA256 {
		return "sha256"
	}
	return "sha1"
}

// Size returns the length of a hash in bytes: 20 or 32.
func (f Format) Size() int {
	if f == SHA256 {
		return 32
	}
	return 20
}

// Zero returns the hash that stands for no object: all zeros, in hex.
func (f Format) Zero() string { return strings.Repeat("0", 2*f.Size()) }

// commit returns the hash of a commit with this content.
func (f Format) commit(content []byte) oid {
	algorithm := crypto.SHA1
	if f == SHA256 {
		algorithm = crypto.SHA256
	}
	h := githash.New(algorithm) // of a SHA-1 collision it returns another hash
	fmt.Fprintf(h, "commit %d\x00", len(content))
	_, _ = h.Write(content) // a hash returns no errors
	var out oid
	copy(out[:], h.Sum(nil))
	return out
}

// parse reads a hash from exactly as many lower-case hex digits as the format has.
func (f Format) parse(text string) (oid, bool) {
	var out oid
	if len(text) != 2*f.Size() || strings.ToLower(text) != text {
		return out, false
	}
	_, err := hex.Decode(out[:], []byte(text))
	return out, err == nil
}

func (f Format) text(id oid) string { return hex.EncodeToString(id[:f.Size()]) }

// oid is a hash of either format; that of SHA-1 ends with zeros.
type oid [32]byte

// Update is a change of one reference.
type Update struct {
	// Ref is the full name, such as refs/heads/main: valid for git, and UTF-8.
	Ref string
	// Old and New are hashes in hex. Old is empty for a reference that is created,
	// New for one that is deleted. They are never both empty.
	Old, New string
}

// Push is a push that was read from a request.
type Push struct {
	Format Format
	// Updates are in the order of the request. Each reference occurs once. None
	// means a request that changes nothing, which passes: the probe that git sends
	// before it uploads a large pack, or a push of a shallow clone that is up to date.
	Updates []Update
	// Capabilities are those that the client asks for, as sent.
	Capabilities []string
	// Shallow are the commits, in hex, whose parents the client does not have.
	Shallow []string
	// Options are the push options (git push -o).
	Options []string
	// Certificate is that of a signed push, otherwise nil.
	Certificate *Certificate
	// Head is the decompressed body before the pack.
	Head []byte

	pack    *bufio.Reader // the body after Head
	closer  io.Closer     // of the body
	chunked bool          // the length of the body is not known
	length  int64         // of the body if known
	spool   Spool         // has the pack once it was inspected
	spooled int64         // bytes of the pack in the spool
	log     *packReader
}

// Certificate is the signed text of a push. The signature is not verified here; it
// reaches the server unchanged.
type Certificate struct {
	Pusher, Pushee, Nonce string
	// Options are the push options that are signed.
	Options []string
	// Text is all of it, with the signature.
	Text []byte
}

// Has reports whether the client asked for a capability without a value.
func (p *Push) Has(capability string) bool { return slices.Contains(p.Capabilities, capability) }

// HasPack reports whether a pack follows: not if references are deleted only.
func (p *Push) HasPack() bool {
	return slices.ContainsFunc(p.Updates, func(u Update) bool { return u.New != "" })
}

// Body returns the decompressed body as it was sent. It can be read once.
func (p *Push) Body() (io.Reader, error) {
	head := bytes.NewReader(p.Head)
	if p.spool == nil {
		return io.MultiReader(head, p.pack), nil
	}
	if _, err := p.spool.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("rewind the spooled pack: %w", err)
	}
	return io.MultiReader(head, io.LimitReader(p.spool, p.spooled)), nil
}

// Forward makes the body of the push that of a request to the server, and sets the
// header fields that describe it. Closing the request's body closes the push.
func (p *Push) Forward(req *http.Request) error {
	body, err := p.Body()
	if err != nil {
		return err
	}
	req.Body = struct {
		io.Reader
		io.Closer
	}{body, p}
	p.log = nil // what was found in the pack is not needed while it is sent
	req.GetBody = nil
	req.TransferEncoding = nil
	req.Header.Del("Content-Encoding")
	req.Header.Del("Content-Length")
	switch {
	case p.spool != nil:
		req.ContentLength = int64(len(p.Head)) + p.spooled
	case p.chunked:
		req.ContentLength = -1
	default:
		req.ContentLength = p.length
	}
	return nil
}

// Close closes the body that the push was read from, and the spool if it is an
// io.Closer.
func (p *Push) Close() error {
	if c, ok := p.spool.(io.Closer); ok {
		_ = c.Close() // its content is no longer needed
	}
	if p.closer == nil {
		return nil
	}
	return p.closer.Close()
}

// Error reports a request that is refused because it cannot be parsed, is damaged or
// exceeds a limit. Its text may be shown to the client.
type Error struct {
	What string
	// Status is the HTTP status for it: 400, 413 or 415.
	Status int
}

func (e *Error) Error() string { return e.What }

func malformed(format string, args ...any) *Error {
	return &Error{"malformed push: " + fmt.Sprintf(format, args...), http.StatusBadRequest}
}

func tooLarge(format string, args ...any) *Error {
	return &Error{"push is too large: " + fmt.Sprintf(format, args...), http.StatusRequestEntityTooLarge}
}
