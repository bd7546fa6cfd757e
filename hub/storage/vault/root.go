package vault

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/core/registry"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Root is the root key, which encrypts the data keys. All hubs of an installation have
// the same.
type Root struct {
	tink.AEAD

	// handle is the root key itself; nil for one in a KMS.
	handle *keyset.Handle
	// file is the file that it was read from; empty for one that is not a file.
	file string
	// where names its place to an operator.
	where string
}

// String returns which key this is and where it was read, for messages.
func (r Root) String() string {
	if r.handle == nil {
		return r.where
	}
	return fmt.Sprintf("root key %d of %s", r.handle.KeysetInfo().GetPrimaryKeyId(), r.where)
}

// again returns the root as its file holds it now, which may have been replaced
// since it was read.
func (r Root) again() (Root, error) {
	if r.file == "" {
		return r, nil
	}
	data, err := os.ReadFile(r.file)
	if err != nil {
		return Root{}, fmt.Errorf("keyset: %w", err)
	}
	return parseFile(r.file, data)
}

// Schemes of roots that need no KMS.
const (
	fileScheme = "file://"
	envScheme  = "env://"
)

// OpenRoot opens the key that a URI names:
//
//	file:///etc/deckhand/keyset.json  a Tink keyset in a file of mode 0600, made on first use
//	env://NAME                        a Tink keyset as JSON in a variable
//	aws-kms://…, gcp-kms://…, …       a key of a KMS whose client is registered with Tink
//
// A KMS's client is one import in a build of one's own; see
// https://developers.google.com/tink/get-key-uri.
func OpenRoot(uri string) (Root, error) {
	scheme, rest, found := strings.Cut(uri, "://")
	switch {
	case !found:
		return Root{}, fault.New(fault.Invalid, "keyset-key %q is no URI", uri).WithFix("use file:///path/to/keyset.json, env://NAME or a KMS's")
	case strings.HasPrefix(uri, fileScheme):
		if !filepath.IsAbs(rest) {
			return Root{}, fault.New(fault.Invalid, "keyset-key names the file %q, which is not a whole path", rest).WithFix("use three slashes: file:///path/to/keyset.json")
		}
		return openFile(rest)
	case strings.HasPrefix(uri, envScheme):
		return openVariable(rest)
	}
	client, err := registry.GetKMSClient(uri)
	if err != nil {
		return Root{}, fault.New(fault.Invalid, "keyset-key names a key of %s://, and this build has no client for it", scheme).
			WithFix("use file:///path or env://NAME, or a build that registers Tink's client for %s", scheme).WithCause(err)
	}
	key, err := client.GetAEAD(uri)
	if err != nil {
		return Root{}, fault.New(fault.Precondition, "the key of %s:// that keyset-key names cannot be used", scheme).
			WithFix("check the URI, and the rights of this machine in that KMS").WithCause(err)
	}
	return Root{AEAD: key, where: "the key of " + scheme + "://"}, nil
}

func openVariable(name string) (Root, error) {
	value := os.Getenv(name)
	if value == "" {
		return Root{}, fault.New(fault.Precondition, "keyset-key names the variable %q, which is not set", name).
			WithFix("put a Tink keyset as JSON into it")
	}
	return parse([]byte(value), "variable "+name)
}

func openFile(path string) (Root, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = create(path)
	}
	if err != nil {
		return Root{}, fmt.Errorf("keyset: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return Root{}, fmt.Errorf("keyset: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Root{}, fault.New(fault.Precondition, "keyset file %s can be read by others (mode %04o)", path, info.Mode().Perm()).
			WithFix("chmod 600 %s", path)
	}
	return parseFile(path, data)
}

func parseFile(path string, data []byte) (Root, error) {
	root, err := parse(data, "file "+path)
	root.file = path
	return root, err
}

func parse(data []byte, where string) (Root, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(data)))
	if err != nil {
		// The cause may quote what is not a keyset, which may be a key.
		return Root{}, fault.New(fault.Precondition, "keyset %s is not a Tink keyset", where).
			WithFix("restore it from your backup: what it sealed cannot be opened without it")
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return Root{}, fmt.Errorf("use keyset %s: %w", where, err)
	}
	return Root{AEAD: primitive, handle: handle, where: where}, nil
}

// NewKeyset creates a root key: a Tink keyset as JSON, for env://NAME or a file.
func NewKeyset() ([]byte, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&buf)); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// create writes a new keyset whole or not at all; when another process was
// first, its file is answered.
func create(path string) ([]byte, error) {
	made, err := NewKeyset()
	if err != nil {
		return nil, err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".keyset-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(made); err != nil {
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
