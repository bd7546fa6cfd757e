// Package auditlog defines the format of an audit export, and verifies exports.
// An export is JSON lines, and verifying it needs no hub:
//
//	{"deckhand_audit":1,…}   the organisation, the key, and where the export begins
//	{"position":1,…}         an entry; the next has the next position
//	{"head":{…}}             signed: the hash of all entries up to a position
//	{"end":{…}}              signed: nothing was cut off at the end
//
// The hash at a position is the SHA-256 of the previous hash (32 zero bytes at
// the beginning) followed by the entry's line without its line break. Every
// other byte of an export is either signed or must equal the result of encoding
// it again. Verify therefore detects a change of any byte.
package auditlog

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// version is the version of the format.
const version = 1

// Hash is the hash at a position.
type Hash = [sha256.Size]byte

// Next returns the hash at the next position.
func Next(before Hash, line []byte) Hash {
	h := sha256.New()
	_, _ = h.Write(before[:])
	_, _ = h.Write(line)
	var out Hash
	h.Sum(out[:0])
	return out
}

// Header is an export's first line.
type Header struct {
	Version      int    `json:"deckhand_audit"`
	Organisation string `json:"organisation"`
	// Key is the public key in hexadecimal.
	Key string `json:"key"`
	// Position is that before the first entry, and Hash the hash there.
	Position int64  `json:"position"`
	Hash     string `json:"hash"`
}

// NewHeader returns the header of an export that begins behind a position.
func NewHeader(organisation string, key ed25519.PublicKey, position int64, hash Hash) Header {
	return Header{version, organisation, hex.EncodeToString(key), position, hex.EncodeToString(hash[:])}
}

// Entry is one change. Its line is what is hashed.
type Entry struct {
	Position   int64           `json:"position"`
	ID         int64           `json:"id"`
	Time       time.Time       `json:"time"`
	ActorKind  string          `json:"actor_kind"`
	ActorID    string          `json:"actor_id"`
	Action     string          `json:"action"`
	ObjectKind string          `json:"object_kind"`
	ObjectID   string          `json:"object_id"`
	Severity   string          `json:"severity"`
	Before     json.RawMessage `json:"before"`
	After      json.RawMessage `json:"after"`
	Reason     string          `json:"reason"`
	Address    string          `json:"address"`
	UserAgent  string          `json:"user_agent"`
}

// Line returns an entry's line, without its line break.
func (e Entry) Line() ([]byte, error) {
	e.Time = e.Time.UTC()
	line, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode audit entry %d: %w", e.ID, err)
	}
	return line, nil
}

// Head says what the hash at a position is. Number counts the heads of an
// organisation from 1.
type Head struct {
	Organisation string    `json:"organisation"`
	Number       int64     `json:"number"`
	Position     int64     `json:"position"`
	Hash         string    `json:"hash"`
	Time         time.Time `json:"time"`
	Signature    string    `json:"signature,omitempty"`
}

// End describes how an export ends. Number is that of its last head.
type End struct {
	Organisation string    `json:"organisation"`
	Number       int64     `json:"number"`
	Entries      int64     `json:"entries"`
	Position     int64     `json:"position"`
	Hash         string    `json:"hash"`
	Time         time.Time `json:"time"`
	Signature    string    `json:"signature,omitempty"`
}

// headLine, endLine and receiptLine are lines; what is signed is the line with
// an empty signature.
type (
	headLine struct {
		Head Head `json:"head"`
	}
	endLine struct {
		End End `json:"end"`
	}
	receiptLine struct {
		Receipt Receipt `json:"receipt"`
	}
)

// payload returns what is signed: lines say themselves what they are.
func payload(line any) []byte {
	data, err := json.Marshal(line)
	if err != nil {
		panic(err) // texts, numbers and times
	}
	return data
}

func sign(key ed25519.PrivateKey, line any) string {
	return hex.EncodeToString(ed25519.Sign(key, payload(line)))
}

// Sign returns a head with its signature.
func (h Head) Sign(key ed25519.PrivateKey) Head {
	h.Time, h.Signature = h.Time.UTC(), ""
	h.Signature = sign(key, headLine{h})
	return h
}

// Line returns a head's line.
func (h Head) Line() []byte {
	h.Time = h.Time.UTC()
	return payload(headLine{h})
}

// Sign returns an end with its signature.
func (e End) Sign(key ed25519.PrivateKey) End {
	e.Time, e.Signature = e.Time.UTC(), ""
	e.Signature = sign(key, endLine{e})
	return e
}

// Line returns an end's line.
func (e End) Line() []byte { return payload(endLine{e}) }

// Line returns a header's line.
func (h Header) Line() []byte { return payload(h) }

// Receipt says what a run was made of: under whose persona, policy and image it
// ran, where, what it may reach, who allowed what, and a digest of its events.
type Receipt struct {
	Version      int    `json:"deckhand_receipt"`
	Organisation string `json:"organisation"`
	Key          string `json:"key"`
	TaskID       string `json:"task_id"`
	State        string `json:"state"`
	CreatedBy    string `json:"created_by"`
	Agent        string `json:"agent"`
	AgentID      string `json:"agent_id"`
	// PersonaVersion counts an agent's personas; PersonaDigest is SHA-256 of it.
	PersonaVersion int32  `json:"persona_version"`
	PersonaDigest  string `json:"persona_digest"`
	// Policies are the versions of the rules that decided its steps.
	Policies []string `json:"policies"`
	Images   []string `json:"images"`
	Nodes    []string `json:"nodes"`
	// Egress are the destinations that its persona allows.
	Egress []string `json:"egress"`
	// Approvers are the people who decided its approval, with their decisions.
	Approvers []Approval `json:"approvers"`
	// Events is how many events it has, and EventsDigest the hash at the last:
	// chained as an audit's entries are.
	Events       int64      `json:"events"`
	EventsDigest string     `json:"events_digest"`
	StartedAt    *time.Time `json:"started_at"`
	FinishedAt   *time.Time `json:"finished_at"`
	Time         time.Time  `json:"time"`
	Signature    string     `json:"signature,omitempty"`
}

// Approval is one person's decision.
type Approval struct {
	Item   string    `json:"item"`
	Kind   string    `json:"kind"`
	Tool   string    `json:"tool"`
	Answer string    `json:"answer"`
	By     string    `json:"by"`
	Time   time.Time `json:"time"`
}

// Sign returns a receipt with key and signature.
func (r Receipt) Sign(key ed25519.PrivateKey) Receipt {
	public, _ := key.Public().(ed25519.PublicKey)
	r.Version, r.Key, r.Time, r.Signature = version, hex.EncodeToString(public), r.Time.UTC(), ""
	r.Signature = sign(key, receiptLine{r})
	return r
}

// Line returns a receipt's line.
func (r Receipt) Line() []byte { return payload(receiptLine{r}) }
