// Package browserlink is what the hub and the keeper of a task's browser have to agree on:
// Session, the state of a browser that a checkpoint holds; Secret, the value of a credential
// that is typed into a page; and Key, which keeps both from the agent.
//
// Between the hub and the keeper is a command of the agent's user, whose input and output
// other commands of the agent could read, and whose log people read. So sessions and secrets
// pass it encrypted, and each call is signed: a command of the agent cannot make a call of its
// own. The hub creates one key for each task and gives it to the keeper on its standard input,
// which only the browser's user can read.
package browserlink

import (
	"bytes"
	"compress/gzip"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// KeySize is the length of a key in bytes.
	KeySize = 32
	// MaxSession bounds a session as JSON.
	MaxSession = 4 << 20
	// MaxSealed bounds one that is sealed, which has to fit into the input of a command.
	MaxSealed = 512 << 10
)

// Session is the state of a browser. Anything in it may be secret.
type Session struct {
	Tabs    []Tab    `json:"tabs,omitempty"`
	Cookies []Cookie `json:"cookies,omitempty"`
	// Local is the local storage by origin.
	Local map[string][]Item `json:"local,omitempty"`
	// Dropped is how many items of a storage were too large to be kept.
	Dropped int `json:"dropped,omitempty"`
	// Ran and Typed are the origins in whose pages JavaScript of the agent ran, and into whose
	// pages credentials were typed.
	Ran   []string `json:"ran,omitempty"`
	Typed []string `json:"typed,omitempty"`
}

// Tab is a tab of a browser.
type Tab struct {
	URL    string `json:"url"`
	Title  string `json:"title,omitempty"`
	Active bool   `json:"active,omitempty"`
	// X and Y are how far the page is scrolled, in pixels.
	X float64 `json:"x,omitempty"`
	Y float64 `json:"y,omitempty"`
	// Storage is the session storage by origin.
	Storage map[string][]Item `json:"storage,omitempty"`
}

// Item is a key of a storage with its value.
type Item [2]string

// Cookie is a cookie as the Chrome DevTools Protocol has it. Expires is in seconds since 1970.
type Cookie struct {
	Name         string          `json:"name"`
	Value        string          `json:"value"`
	Domain       string          `json:"domain"`
	Path         string          `json:"path"`
	Expires      float64         `json:"expires"`
	HTTPOnly     bool            `json:"httpOnly,omitempty"`
	Secure       bool            `json:"secure,omitempty"`
	Session      bool            `json:"session,omitempty"`
	SameSite     string          `json:"sameSite,omitempty"`
	Priority     string          `json:"priority,omitempty"`
	SourceScheme string          `json:"sourceScheme,omitempty"`
	SourcePort   int             `json:"sourcePort,omitempty"`
	PartitionKey json.RawMessage `json:"partitionKey,omitempty"`
}

// Secret is the value of a credential, and the pages that it may be typed into.
type Secret struct {
	Credential string   `json:"credential"`
	Value      string   `json:"value"`
	Hosts      []string `json:"hosts"`
	Ports      []int    `json:"ports"`
}

// Start is what a keeper reads from its standard input. All of it may be missing.
type Start struct {
	Key []byte `json:"key,omitempty"`
	// Keeper is the keeper's name, which no other has, and Now the hub's time in milliseconds
	// since 1970. Calls name the one, and their deadline is by the other.
	Keeper string `json:"keeper,omitempty"`
	Now    int64  `json:"now,omitempty"`
	// Secrets are those that the task has typed into pages before: no result shows them.
	Secrets []Secret `json:"secrets,omitempty"`
	// Session is what the browser begins with, encoded by EncodeSession.
	Session []byte `json:"session,omitempty"`
	// Lost reports that there was one which is not kept any more.
	Lost bool `json:"lost,omitempty"`
	// Targets are remembered from earlier runs; see Target.
	Targets []Target `json:"targets,omitempty"`
}

// Call is one of a tool as the hub signs it.
type Call struct {
	// Keeper is the only one that may make it, and Exec the command that asks for it.
	Keeper, Exec string
	// Number orders the calls of a task. One that acts is not made after a later one.
	Number int64
	// Deadline is the hub's time after which it is not made, in milliseconds since 1970.
	Deadline          int64
	Tool              string
	Arguments, Secret []byte
}

// Key belongs to one task's browser.
type Key []byte

// NewKey returns a new key.
func NewKey() Key {
	k := make(Key, KeySize)
	_, _ = rand.Read(k) // never fails
	return k
}

// Purposes of what is sealed: one is not taken for another.
const (
	sessionPurpose = "session of "
	targetPurpose  = "target of "
	secretPurpose  = "secret of "
	signPurpose    = "call"
)

// EncodeSession returns a session as compressed JSON. One that is too large loses its storages.
func EncodeSession(s Session) ([]byte, error) {
	for _, without := range []func(){
		func() {},
		func() { s.Local, s.Dropped = nil, s.Dropped+len(s.Local) },
		func() {
			s.Tabs = append([]Tab(nil), s.Tabs...)
			for i := range s.Tabs {
				s.Dropped += len(s.Tabs[i].Storage)
				s.Tabs[i].Storage = nil
			}
		},
	} {
		without()
		text, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("encode a session: %w", err)
		}
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(text); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		if len(text) <= MaxSession && out.Len() <= MaxSealed {
			return out.Bytes(), nil
		}
	}
	return nil, errors.New("the session is too large")
}

// DecodeSession is the inverse of EncodeSession.
func DecodeSession(data []byte) (s Session, err error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return s, fmt.Errorf("read a session: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxSession+1))
	if err == nil && len(text) > MaxSession {
		err = errors.New("it is too large")
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read a session: %w", err)
	}
	return s, nil
}

// SealSession encrypts an encoded session as the result of one call.
func (k Key) SealSession(exec string, encoded []byte) ([]byte, error) {
	return k.seal(sessionPurpose+exec, encoded)
}

// OpenSession decrypts what SealSession returned for the same call.
func (k Key) OpenSession(exec string, sealed []byte) ([]byte, error) {
	return k.open(sessionPurpose+exec, sealed)
}

// SealTarget encrypts what became of the target of one call.
func (k Key) SealTarget(exec string, u UsedTarget) ([]byte, error) {
	text, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	return k.seal(targetPurpose+exec, text)
}

// OpenTarget decrypts what SealTarget returned for the same call.
func (k Key) OpenTarget(exec string, sealed []byte) (u UsedTarget, err error) {
	text, err := k.open(targetPurpose+exec, sealed)
	if err != nil {
		return u, err
	}
	if err := json.Unmarshal(text, &u); err != nil {
		return u, err
	}
	return u, u.check()
}

// SealSecret encrypts a secret for one call of one keeper.
func (k Key) SealSecret(keeper, exec string, s Secret) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return k.seal(secretPurpose+exec+" for "+keeper, text)
}

// OpenSecret decrypts the secret of a call.
func (k Key) OpenSecret(keeper, exec string, sealed []byte) (s Secret, err error) {
	text, err := k.open(secretPurpose+exec+" for "+keeper, sealed)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

// Sign returns the signature of a call: of who makes it, when, and all that it says.
func (k Key) Sign(c Call) []byte {
	sub, err := k.derive(signPurpose)
	if err != nil {
		return nil
	}
	m := hmac.New(sha256.New, sub)
	for _, n := range []int64{c.Number, c.Deadline} {
		_ = binary.Write(m, binary.BigEndian, n) // a hash never fails
	}
	for _, part := range [][]byte{[]byte(c.Keeper), []byte(c.Exec), []byte(c.Tool), c.Arguments, c.Secret} {
		_ = binary.Write(m, binary.BigEndian, uint64(len(part))) // a hash never fails
		_, _ = m.Write(part)
	}
	return m.Sum(nil)
}

// Signed reports whether a signature is that of a call.
func (k Key) Signed(signature []byte, c Call) bool {
	want := k.Sign(c)
	return len(want) > 0 && hmac.Equal(want, signature)
}

func (k Key) derive(purpose string) ([]byte, error) {
	if len(k) != KeySize {
		return nil, errors.New("there is no key of the browser")
	}
	return hkdf.Key(sha256.New, k, nil, "the browser of a jail: "+purpose, KeySize)
}

func (k Key) cipher(purpose string) (cipher.AEAD, error) {
	sub, err := k.derive(purpose)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(sub)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal encrypts the same data for the same purpose to the same text, since a call that is sent
// again after a crash has to be the same request. The nonce is derived from the data, so that
// no other data has it.
func (k Key) seal(purpose string, data []byte) ([]byte, error) {
	c, err := k.cipher(purpose)
	if err != nil {
		return nil, err
	}
	sub, err := k.derive("the nonces of " + purpose)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, sub)
	mac.Write(data)
	nonce := mac.Sum(nil)[:c.NonceSize()]
	return c.Seal(nonce, nonce, data, []byte(purpose)), nil //nolint:gosec // see above
}

func (k Key) open(purpose string, sealed []byte) ([]byte, error) {
	c, err := k.cipher(purpose)
	if err != nil {
		return nil, err
	}
	foreign := errors.New("it was not encrypted with the browser's key")
	if len(sealed) < c.NonceSize() {
		return nil, foreign
	}
	data, err := c.Open(nil, sealed[:c.NonceSize()], sealed[c.NonceSize():], []byte(purpose))
	if err != nil {
		return nil, foreign
	}
	return data, nil
}
