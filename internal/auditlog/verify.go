package auditlog

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Report is what an export that is whole says.
type Report struct {
	Organisation string
	// Key is the public key, in hexadecimal, that signed everything. Unless it
	// was passed to Verify, a person must compare it with the expected one.
	Key     string
	Entries int64
	// First and Last are positions; 0 without entries.
	First, Last int64
	Heads       int64
	// Sealed is the position of the last head that was verified: the entries up to it
	// are what was sealed.
	Sealed int64
	// Proofs is how many entries hold a proof by a passkey; each was verified.
	Proofs int64
	// Passkeys are those whose registration is in the export, in its order.
	Passkeys []Passkey
	// Time is when the export, or the receipt, was made.
	Time time.Time
	// Receipt is set where that is what was verified.
	Receipt *Receipt
}

// Passkey is one that an entry registers.
type Passkey struct {
	ID string
	// User is the name of who registered it for themselves, and UserID their id.
	User, UserID string
	// KeySHA256 is the digest of its public key in hexadecimal.
	KeySHA256 string
	// Position is that of the entry.
	Position int64
	// Proved reports that another passkey of the user has signed the registration. A
	// user's first passkey is not proved.
	Proved bool
}

// Broken says where an export is not what the hub has made.
type Broken struct {
	// Line counts from 1.
	Line int64
	Why  string
	// Sealed is the position of the last head before it that was verified, and Position
	// that of the last entry before it.
	Sealed, Position int64
}

func (b *Broken) Error() string { return fmt.Sprintf("line %d: %s", b.Line, b.Why) }

// prefixes identify the kinds of lines.
var (
	entryPrefix   = []byte(`{"position":`)
	headPrefix    = []byte(`{"head":`)
	endPrefix     = []byte(`{"end":`)
	receiptPrefix = []byte(`{"receipt":`)
)

// ErrKey reports that the export was signed with a different key.
var ErrKey = errors.New("it is signed with another key")

// verifier is where in an export one is.
type verifier struct {
	key      ed25519.PublicKey
	header   Header
	line     int64
	position int64
	hash     Hash
	// sealed is the position of the last head, and number its number.
	sealed, number int64
	// keys are the passkeys whose registration is in the export: the digest of each key
	// and its user, by id.
	keys   map[string]registered
	report Report
	ended  bool
	// sealedTo, if set, is called behind each head.
	sealedTo func(Report)
}

// Verify reads an export or a receipt, and returns what it says if it is, byte
// by byte, what the owner of its key has made. key, if not nil, is whose it has
// to be. A *Broken says where it is not.
func Verify(r io.Reader, key ed25519.PublicKey) (Report, error) { return Follow(r, key, nil) }

// Follow does what Verify does, and calls progress, if it is not nil, with what was
// verified so far behind each head.
func Follow(r io.Reader, key ed25519.PublicKey, progress func(Report)) (Report, error) {
	v := &verifier{sealedTo: progress}
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return v.report, fmt.Errorf("read line %d: %w", v.line+1, err)
		}
		v.line++
		why := ""
		switch {
		case err != nil:
			why = "it has no line break: the file was cut off"
		case v.ended:
			why = "something comes behind the end"
		default:
			line = line[:len(line)-1]
			if v.line == 1 {
				if why = v.begin(line); why == "" && key != nil && !bytes.Equal(v.key, key) {
					return v.report, ErrKey
				}
			} else {
				why = v.next(line)
			}
		}
		if why != "" {
			return v.report, v.broken(v.line, why)
		}
	}
	if !v.ended {
		return v.report, v.broken(v.line+1, "the end is missing: the file was cut off")
	}
	return v.report, nil
}

func (v *verifier) broken(line int64, why string) *Broken {
	return &Broken{Line: line, Why: why, Sealed: v.sealed, Position: v.position}
}

// same reads a line, which has to be what encoding it again makes.
func same(line []byte, into any) bool {
	if json.Unmarshal(line, into) != nil {
		return false
	}
	again, err := json.Marshal(into)
	return err == nil && bytes.Equal(line, again)
}

// unhex reads hexadecimal in lower case, of so many bytes.
func unhex(text string, size int) ([]byte, bool) {
	data, err := hex.DecodeString(text)
	return data, err == nil && len(data) == size && hex.EncodeToString(data) == text
}

const malformed = "it is not what a hub writes"

func (v *verifier) begin(line []byte) (why string) {
	if bytes.HasPrefix(line, receiptPrefix) {
		return v.receipt(line)
	}
	if !same(line, &v.header) || v.header.Version != version || v.header.Position < 0 {
		return "it does not begin as an audit export of this version"
	}
	key, ok := unhex(v.header.Key, ed25519.PublicKeySize)
	hash, good := unhex(v.header.Hash, len(Hash{}))
	if !ok || !good {
		return malformed
	}
	v.key, v.hash, v.position, v.sealed = key, Hash(hash), v.header.Position, v.header.Position
	if v.position == 0 && v.hash != (Hash{}) {
		return "it begins with a hash of nothing that is not zero"
	}
	v.report.Organisation, v.report.Key = v.header.Organisation, v.header.Key
	return ""
}

func (v *verifier) next(line []byte) (why string) {
	switch {
	case bytes.HasPrefix(line, entryPrefix):
		digits, _, _ := bytes.Cut(line[len(entryPrefix):], []byte(","))
		position, err := strconv.ParseInt(string(digits), 10, 64)
		if err != nil || position != v.position+1 {
			return fmt.Sprintf("here is no entry of position %d: entries are missing, or in another order", v.position+1)
		}
		if why := v.proof(line); why != "" {
			return why
		}
		v.position, v.hash = position, Next(v.hash, line)
		if v.report.Entries++; v.report.First == 0 {
			v.report.First = position
		}
		v.report.Last = position
		return ""
	case bytes.HasPrefix(line, headPrefix):
		return v.head(line)
	case bytes.HasPrefix(line, endPrefix):
		return v.end(line)
	}
	return malformed
}

// signed reports whether a signature is valid for what it signs.
func (v *verifier) signed(signature string, unsigned any) bool {
	sig, ok := unhex(signature, ed25519.SignatureSize)
	return ok && ed25519.Verify(v.key, payload(unsigned), sig)
}

func (v *verifier) head(line []byte) (why string) {
	var read headLine
	if !same(line, &read) {
		return malformed
	}
	h := read.Head
	unsigned := h
	unsigned.Signature = ""
	if !v.signed(h.Signature, headLine{unsigned}) {
		return "the head's signature is not of it"
	}
	switch {
	case h.Organisation != v.header.Organisation:
		return "the head is another organisation's"
	case h.Position == v.position+1:
		return fmt.Sprintf("the entry of position %d is missing", h.Position)
	case h.Position > v.position:
		return fmt.Sprintf("the entries of positions %d to %d are missing", v.position+1, h.Position)
	case h.Position != v.position || h.Position <= v.sealed:
		return fmt.Sprintf("the head is of position %d, and not of %d", h.Position, v.position)
	case h.Hash != hex.EncodeToString(v.hash[:]):
		return fmt.Sprintf("something between positions %d and %d is not what was sealed", v.sealed+1, h.Position)
	case v.number != 0 && h.Number != v.number+1, v.sealed == 0 && h.Number != 1:
		return fmt.Sprintf("head %d follows head %d", h.Number, v.number)
	}
	v.sealed, v.number = h.Position, h.Number
	v.report.Heads++
	if v.report.Sealed = h.Position; v.sealedTo != nil {
		v.sealedTo(v.report)
	}
	return ""
}

func (v *verifier) end(line []byte) (why string) {
	var read endLine
	if !same(line, &read) {
		return malformed
	}
	e := read.End
	unsigned := e
	unsigned.Signature = ""
	if !v.signed(e.Signature, endLine{unsigned}) {
		return "the end's signature is not of it"
	}
	switch {
	case e.Organisation != v.header.Organisation:
		return "the end is another organisation's"
	case v.position != v.sealed:
		return "the last entries have no head"
	case e.Entries != v.report.Entries || e.Position != v.position || v.number != 0 && e.Number != v.number || e.Hash != hex.EncodeToString(v.hash[:]):
		return "the end is of another export"
	}
	v.ended, v.report.Time = true, e.Time
	return ""
}

func (v *verifier) receipt(line []byte) (why string) {
	var read receiptLine
	if !same(line, &read) || read.Receipt.Version != version {
		return malformed
	}
	r := read.Receipt
	key, ok := unhex(r.Key, ed25519.PublicKeySize)
	if !ok {
		return malformed
	}
	v.key = key
	unsigned := r
	unsigned.Signature = ""
	if !v.signed(r.Signature, receiptLine{unsigned}) {
		return "the receipt's signature is not of it"
	}
	v.ended = true
	v.report = Report{Organisation: r.Organisation, Key: r.Key, Time: r.Time, Receipt: &r}
	return ""
}
