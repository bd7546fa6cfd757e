// Package vault seals what must not be readable at rest: AES-256-GCM under a
// Tink keyset that lives in a file of mode 0600, made on first use. What is
// sealed for one object cannot be opened as another's: the object's id is
// bound in as associated data.
package vault

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Vault seals and opens.
type Vault struct{ primitive tink.AEAD }

// Open reads the keyset at path, making it when there is none. All hubs of an
// installation must have the same file.
func Open(path string) (*Vault, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = create(path)
	}
	if err != nil {
		return nil, fmt.Errorf("keyset: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("keyset: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.Precondition, "keyset file %s can be read by others (mode %04o)", path, info.Mode().Perm()).
			WithFix("chmod 600 %s", path)
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(data)))
	if err != nil {
		return nil, fault.New(fault.Precondition, "keyset file %s is not a Tink keyset", path).
			WithFix("restore it from your backup: what it sealed cannot be opened without it").WithCause(err)
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("use keyset %s: %w", path, err)
	}
	return &Vault{primitive}, nil
}

// create writes a new keyset whole or not at all; when another process was
// first, its file is answered.
func create(path string) ([]byte, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&buf)); err != nil {
		return nil, err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".keyset-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(buf.Bytes()); err != nil {
		return nil, errors.Join(err, tmp.Close())
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}

// Seal encrypts a value for one object.
func (v *Vault) Seal(value []byte, object string) ([]byte, error) {
	sealed, err := v.primitive.Encrypt(value, []byte(object))
	if err != nil {
		return nil, fmt.Errorf("seal for %s: %w", object, err)
	}
	return sealed, nil
}

// Open decrypts what was sealed for that object.
func (v *Vault) Open(sealed []byte, object string) ([]byte, error) {
	value, err := v.primitive.Decrypt(sealed, []byte(object))
	if err != nil {
		return nil, fault.New(fault.Internal, "what was sealed for %s cannot be opened with this keyset", object).
			WithFix("restore the keyset file that sealed it").WithObject(object).WithCause(err)
	}
	return value, nil
}
