// Package vault encrypts what must not be readable at rest: AES-256-GCM under a Tink
// keyset. Vault encrypts and decrypts; Root is the root key. The keyset is in the
// database, encrypted with a root key that a URI names and that encrypts nothing else, so
// that all hubs share the keyset and no single hub can lose it. What is encrypted for one
// object cannot be decrypted as another's: the object's id is bound as associated data.
//
// Keys change while hubs run; see package rotation. A hub reads newer ones from time to
// time, at once when it has to decrypt with a key that it does not know, and before it
// encrypts if it has not read them for MaxAge: so no hub encrypts with a key that was
// replaced longer ago.
//
// The root key changes, too. A hub that runs without the new one continues with the keys
// that it knows until those change; Unreadable reports this before.
package vault

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// MaxAge is how old a hub's knowledge of the keys may be when it seals.
const MaxAge = 20 * time.Second

const (
	lookTimeout = 5 * time.Second
	// keysFor is the associated data of the encrypted keyset itself.
	keysFor = "deckhand keyset"
	// PrefixSize is how many bytes at the beginning of a ciphertext identify the key.
	// https://developers.google.com/tink/wire-format
	PrefixSize = 5
)

// Keysets stores the keyset.
type Keysets interface {
	GetKeyset(ctx context.Context) (db.Keyset, error)
	KeysetVersion(ctx context.Context) (db.KeysetVersionRow, error)
	CreateKeyset(ctx context.Context, keys []byte) error
}

// Vault seals and opens.
type Vault struct {
	root    atomic.Pointer[Root]
	keysets Keysets // nil for a keyset that never changes: the root itself

	now  atomic.Pointer[keys]
	look sync.Mutex
	// unreadable is why the keyset in the database could not be opened when it was
	// last tried; nil when it could.
	unreadable atomic.Pointer[Unreadable]
}

// Unreadable is a keyset in the database that this hub's root key does not open.
type Unreadable struct {
	// Missing names the root key that would.
	Missing string
	// Stale reports that the stored keys are not those that this hub knows: it can no
	// longer encrypt, nor decrypt what others encrypt.
	Stale bool
	// Err is the error, with what to do about it.
	Err error
}

// keys are the keyset as it was at a time.
type keys struct {
	tink.AEAD

	version int64
	digest  [sha256.Size]byte
	known   map[uint32]bool
	looked  time.Time
}

// Open returns a vault whose keyset is a file, created if there is none. It is for one
// process, without a database.
func Open(path string) (*Vault, error) {
	root, err := openFile(path)
	if err != nil {
		return nil, err
	}
	v := &Vault{}
	v.root.Store(&root)
	v.now.Store(&keys{AEAD: root, known: idsOf(root.handle)})
	return v, nil
}

// New returns the vault of an installation, and makes its keyset when there is
// none.
func New(ctx context.Context, root Root, keysets Keysets) (*Vault, error) {
	v := &Vault{keysets: keysets}
	v.root.Store(&root)
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("make the first key: %w", err)
	}
	sealed, err := root.encrypt(handle)
	if err != nil {
		return nil, err
	}
	if err := keysets.CreateKeyset(ctx, sealed); err != nil {
		return nil, fmt.Errorf("store the keyset: %w", err)
	}
	return v, v.load(ctx)
}

func idsOf(handle *keyset.Handle) map[uint32]bool {
	out := map[uint32]bool{}
	for _, key := range handle.KeysetInfo().GetKeyInfo() {
		out[key.GetKeyId()] = true
	}
	return out
}

func (r Root) encrypt(handle *keyset.Handle) ([]byte, error) {
	var out bytes.Buffer
	if err := handle.WriteWithAssociatedData(keyset.NewBinaryWriter(&out), r, []byte(keysFor)); err != nil {
		return nil, fmt.Errorf("encrypt the keyset: %w", err)
	}
	return out.Bytes(), nil
}

// decrypt decrypts the keyset. If the root's file was replaced, it is read again.
func (v *Vault) decrypt(sealed []byte) (*keyset.Handle, error) {
	root := *v.root.Load()
	handle, err := root.decrypt(sealed)
	if err == nil {
		return handle, nil
	}
	now, newErr := root.again()
	if newErr != nil {
		return nil, err
	}
	if handle, newErr = now.decrypt(sealed); newErr != nil {
		return nil, err
	}
	v.root.Store(&now)
	return handle, nil
}

func (r Root) decrypt(sealed []byte) (*keyset.Handle, error) {
	handle, err := keyset.ReadWithAssociatedData(keyset.NewBinaryReader(bytes.NewReader(sealed)), r, []byte(keysFor))
	if err != nil {
		return nil, fault.New(fault.Precondition, "the keyset in the database cannot be opened with the key that --keyset-key names: it is encrypted with %s, and this is %s", rootOf(sealed), r).
			WithFix("give this hub the same keyset.json, or the same --keyset-key, as the others, for example from where deckhand vault rotate-root ran, or restore it from your backup").WithCause(err)
	}
	return handle, nil
}

// Opens returns an error if the root key is not the one that encrypted keys, the vault's keys
// as they are in the database.
func (r Root) Opens(keys []byte) error {
	_, err := r.decrypt(keys)
	return err
}

// ReadRoot returns the root key that a Tink keyset in JSON holds; where names its place to an
// operator.
func ReadRoot(data []byte, where string) (Root, error) { return parse(data, where) }

// rootOf names the root key that an encrypted keyset needs.
func rootOf(sealed []byte) string {
	if m, err := keyset.NewBinaryReader(bytes.NewReader(sealed)).ReadEncrypted(); err == nil {
		if id, ok := keyOf(m.GetEncryptedKeyset()); ok {
			return fmt.Sprintf("root key %d", id)
		}
	}
	return "a key of a KMS"
}

// Unreadable returns why the keyset in the database cannot be opened by this hub,
// as of the last Refresh; nil when it can.
func (v *Vault) Unreadable() *Unreadable { return v.unreadable.Load() }

// load reads the keyset.
func (v *Vault) load(ctx context.Context) error {
	looked := time.Now()
	row, err := v.keysets.GetKeyset(ctx)
	if err != nil {
		return fmt.Errorf("load the keyset: %w", err)
	}
	handle, err := v.decrypt(row.Keys)
	if err != nil {
		now := v.now.Load()
		v.unreadable.Store(&Unreadable{Missing: rootOf(row.Keys), Stale: now == nil || now.version != row.Version, Err: err})
		return err
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return fmt.Errorf("use the keyset: %w", err)
	}
	v.unreadable.Store(nil)
	v.now.Store(&keys{AEAD: primitive, version: row.Version, digest: sha256.Sum256(row.Keys), known: idsOf(handle), looked: looked})
	return nil
}

// Refresh reads newer keys. If the same keys are encrypted with a root key that this hub
// does not have, it continues with those it knows: see Unreadable.
func (v *Vault) Refresh(ctx context.Context) error {
	v.look.Lock()
	defer v.look.Unlock()
	looked := time.Now()
	stored, err := v.keysets.KeysetVersion(ctx)
	if err != nil {
		return fmt.Errorf("read newer keys: %w", err)
	}
	now := v.now.Load()
	if stored.Version != now.version || !bytes.Equal(stored.Digest, now.digest[:]) {
		err := v.load(ctx)
		if why := v.Unreadable(); err == nil || why == nil || why.Stale {
			return err
		}
	}
	again := *now
	again.looked = looked
	v.now.Store(&again)
	return nil
}

// fresh returns the keys, not older than MaxAge.
func (v *Vault) fresh() (*keys, error) {
	if now := v.now.Load(); v.keysets == nil || time.Since(now.looked) < MaxAge {
		return now, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	if err := v.Refresh(ctx); err != nil {
		return nil, err
	}
	return v.now.Load(), nil
}

// Seal encrypts a value for one object.
func (v *Vault) Seal(value []byte, object string) ([]byte, error) {
	now, err := v.fresh()
	if err != nil {
		return nil, err
	}
	sealed, err := now.Encrypt(value, []byte(object))
	if err != nil {
		return nil, fmt.Errorf("seal for %s: %w", object, err)
	}
	return sealed, nil
}

// Open decrypts what was sealed for that object.
func (v *Vault) Open(sealed []byte, object string) ([]byte, error) {
	now := v.now.Load()
	if id, ok := keyOf(sealed); ok && v.keysets != nil && !now.known[id] {
		// Another hub has sealed it with a newer key.
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		defer cancel()
		if err := v.Refresh(ctx); err != nil {
			return nil, err
		}
		now = v.now.Load()
	}
	value, err := now.Decrypt(sealed, []byte(object))
	if err != nil {
		return nil, fault.New(fault.Internal, "what was sealed for %s cannot be opened with this keyset", object).
			WithFix("restore the keyset that sealed it").WithObject(object).WithCause(err)
	}
	return value, nil
}

// keyOf returns the number of the key that sealed something.
func keyOf(sealed []byte) (uint32, bool) {
	if len(sealed) < PrefixSize || sealed[0] != 1 {
		return 0, false
	}
	return binary.BigEndian.Uint32(sealed[1:PrefixSize]), true
}
