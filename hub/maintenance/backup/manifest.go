// Package backup makes backups of an installation and restores them. Create writes one,
// Verify reads all of it, and Restore puts it into an empty database and data folder.
//
// A backup is a folder with a manifest, a dump of the database by pg_dump in its custom
// format, the root key of the vault encrypted with age, the current personas as files and
// the newest signed head of every organisation's audit chain. pg_dump and not
// pg_basebackup, because a dump can be restored into a later version of PostgreSQL, into
// another server, and reads every row on the way, so that a damaged page is found when
// the backup is made and not when it is needed. The certificate authority and all other
// secrets are in the database, encrypted under the root key.
//
// The dump is one snapshot of the database, taken while hubs run. If the root key is
// replaced meanwhile, Create fails; it never writes a key that does not open the dump.
// A backup has its final name only when it is complete. Restore checks everything that it
// can before it changes anything, and refuses a target that is not empty. If it fails
// after that, empty the target and repeat it.
//
// What a restored database needs before a hub starts on it is in package restore.
package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Files of a backup.
const (
	ManifestFile = "manifest.json"
	DatabaseFile = "database.dump"
	KeysetFile   = "keyset.json.age"
	HeadsFile    = "audit-heads.json"
	PersonasDir  = "personas"
	NodeFile     = "node.tar.gz.age"
)

// format is the number of the layout; a later one is refused.
const format = 1

// Manifest describes a backup.
type Manifest struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	// TakenAt is just before the snapshot of the database.
	TakenAt time.Time `json:"taken_at"`
	Version string    `json:"deckhand_version"`
	// Schema is the version of the database's schema, and PostgreSQL the major version
	// of its server.
	Schema     int64 `json:"schema"`
	PostgreSQL int   `json:"postgresql"`
	// Dumped is the major version of the pg_dump that was used, which may be later: pg_restore
	// must be of that version or later.
	Dumped int `json:"pg_dump,omitempty"`
	// RootKey names the key that opens the vault. VaultKeys are the vault's keys, encrypted
	// with it: by them a wrong key is found before anything is restored.
	RootKey   string `json:"root_key"`
	VaultKeys []byte `json:"vault_keys"`
	// Recipients are the age recipients that can read the root key; empty if it is not in
	// the backup.
	Recipients []string `json:"recipients,omitempty"`
	// Rows are the numbers of rows, for people.
	Rows map[string]int64 `json:"rows"`
	// Files are all others, by path.
	Files []File `json:"files"`
}

// File is a file of a backup.
type File struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Size returns the size of all files in bytes.
func (m Manifest) Size() (size int64) {
	for _, f := range m.Files {
		size += f.Size
	}
	return size
}

// Has reports whether a file is part of the backup.
func (m Manifest) Has(path string) bool {
	return slices.ContainsFunc(m.Files, func(f File) bool { return f.Path == path })
}

// Read returns the manifest of a backup.
func Read(dir string) (m Manifest, err error) {
	data, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fault.New(fault.NotFound, "%s is not a backup: it has no %s", dir, ManifestFile).
			WithFix("name the folder of one backup; see them with: deckhand backup list %s", dir)
	}
	if err != nil {
		return m, fmt.Errorf("read the manifest: %w", err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fault.New(fault.Precondition, "the manifest of %s cannot be read: %v", dir, err).WithFix("use another backup: this one is damaged")
	}
	if m.Format != format {
		return m, fault.New(fault.Precondition, "backup %s has format %d, and this release reads %d", dir, m.Format, format).
			WithFix("use the release that made it (%s), or a later one", m.Version)
	}
	return m, nil
}

// Entry is a backup in a list.
type Entry struct {
	Dir string
	Manifest
	// Problem is why it cannot be read; empty if it can.
	Problem string
}

// List returns the backups in a folder, the newest first.
func List(dir string) ([]Entry, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.New(fault.NotFound, "cannot list %s: %v", dir, err).WithFix("name the folder that was given to deckhand backup create")
	}
	var out []Entry
	for _, name := range names {
		if !name.IsDir() || !strings.HasPrefix(name.Name(), prefix) {
			continue
		}
		e := Entry{Dir: filepath.Join(dir, name.Name())}
		if e.Manifest, err = Read(e.Dir); err != nil {
			e.Problem = err.Error()
			if strings.HasSuffix(name.Name(), partSuffix) {
				e.Problem = "unfinished: its creation was interrupted; delete it"
			}
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int {
		if c := b.TakenAt.Compare(a.TakenAt); c != 0 {
			return c
		}
		return strings.Compare(b.Dir, a.Dir)
	})
	return out, nil
}

// describe returns the files of a folder with their digests, but for the manifest.
func describe(dir string) (files []File, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == ManifestFile {
			return err
		}
		f, err := digest(dir, filepath.ToSlash(name))
		files = append(files, f)
		return err
	})
	return files, err
}

// digest reads a file of a folder whole.
func digest(dir, name string) (File, error) {
	f := File{Path: name}
	in, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return f, err
	}
	defer in.Close()
	sum := sha256.New()
	if f.Size, err = io.Copy(sum, in); err != nil {
		return f, fmt.Errorf("read %s: %w", name, err)
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return f, nil
}
