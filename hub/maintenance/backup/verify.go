package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Key opens the root key of a backup.
type Key struct {
	// Identities are age identities, one of which can read the root key.
	Identities []age.Identity
	// RootKey is the URI of a root key that is not in the backup.
	RootKey string
}

// Verify reads all of a backup: every file against its digest, every row of the dump, and,
// with a key, whether the key opens the vault.
func Verify(ctx context.Context, dir string, key *Key) (Manifest, error) {
	m, err := Read(dir)
	if err != nil {
		return m, err
	}
	if err := verifyFiles(dir, m); err != nil {
		return m, err
	}
	// Without a database pg_restore writes SQL: it must unpack all of the dump for that.
	if err := run(ctx, "pg_restore", max(m.PostgreSQL, m.Dumped), "", "--file=/dev/null", filepath.Join(dir, DatabaseFile)); err != nil {
		if f := fault.As(err); f != nil && f.Kind == fault.Unavailable {
			if strings.Contains(f.Message, "unsupported version") {
				return m, fault.New(fault.Precondition, "the pg_restore of this machine is too old for the dump of %s", dir).
					WithFix("apt-get install postgresql-client-%d, or a later one", max(m.PostgreSQL, m.Dumped)).WithCause(err)
			}
			return m, damaged(dir, "its dump cannot be read: "+f.Message)
		}
		return m, err
	}
	if key != nil {
		if _, err := openRoot(dir, m, *key); err != nil {
			return m, err
		}
	}
	return m, nil
}

func damaged(dir, what string) error {
	return fault.New(fault.Precondition, "backup %s is damaged: %s", dir, what).WithFix("use another backup, and find out what changed this one (a disk, a copy that was cut short)")
}

func verifyFiles(dir string, m Manifest) error {
	for _, required := range []string{DatabaseFile, HeadsFile} {
		if !m.Has(required) {
			return damaged(dir, "its manifest does not list "+required)
		}
	}
	for _, want := range m.Files {
		if !fs.ValidPath(want.Path) {
			return damaged(dir, fmt.Sprintf("its manifest lists %q", want.Path))
		}
		have, err := digest(dir, want.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return damaged(dir, want.Path+" is missing")
		case err != nil:
			return damaged(dir, err.Error())
		case have.Size != want.Size:
			return damaged(dir, fmt.Sprintf("%s has %d bytes, and had %d", want.Path, have.Size, want.Size))
		case have.SHA256 != want.SHA256:
			return damaged(dir, want.Path+" has changed")
		}
	}
	return nil
}

// openRoot checks that a backup's root key opens its vault, and returns the keyset's text if it
// is in the backup.
func openRoot(dir string, m Manifest, key Key) (data []byte, err error) {
	var root vault.Root
	if m.Has(KeysetFile) {
		if data, err = decryptKeyset(dir, m, key.Identities); err != nil {
			return nil, err
		}
		if root, err = vault.ReadRoot(data, "backup "+m.ID); err != nil {
			return nil, err
		}
	} else {
		if key.RootKey == "" {
			return nil, fault.New(fault.Invalid, "the root key of this backup is not part of it: it was %s", m.RootKey).WithFix("name it with --keyset-key")
		}
		if root, err = vault.OpenRoot(key.RootKey); err != nil {
			return nil, err
		}
	}
	if err := root.Opens(m.VaultKeys); err != nil {
		return nil, fault.New(fault.Precondition, "%s does not open the vault of this backup, which was encrypted with %s", root, m.RootKey).
			WithFix("give the key of the time of the backup: rotate-root keeps old ones as keyset.json.until-TIME").WithCause(err)
	}
	return data, nil
}

func decryptKeyset(dir string, m Manifest, identities []age.Identity) ([]byte, error) {
	sealed, err := os.ReadFile(filepath.Join(dir, KeysetFile))
	if err != nil {
		return nil, fmt.Errorf("read the root key: %w", err)
	}
	if len(identities) == 0 {
		return nil, fault.New(fault.Invalid, "the root key of this backup is encrypted, and no key to read it is given").
			WithFix("give the file that deckhand backup key made, with --identity; its public key is one of %v", m.Recipients)
	}
	r, err := age.Decrypt(bytes.NewReader(sealed), identities...)
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return nil, fault.New(fault.Denied, "the key of --identity does not read this backup").
			WithFix("give the one whose public key is one of %v", m.Recipients)
	}
	if err != nil {
		return nil, damaged(dir, KeysetFile+" cannot be decrypted")
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, damaged(dir, KeysetFile+" cannot be decrypted")
	}
	return data, nil
}

// restorable refuses a backup that this release cannot restore.
func restorable(m Manifest) error {
	latest, err := store.Latest()
	if err != nil {
		return err
	}
	if m.Schema > latest {
		return fault.New(fault.Precondition, "the backup has schema %d, and this release knows schemas up to %d", m.Schema, latest).
			WithFix("restore it with deckhand %s or later", m.Version)
	}
	return nil
}
