package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/deckhand-sh/deckhand/hub/maintenance/backup"
	"github.com/deckhand-sh/deckhand/internal/datalock"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/ledger"
)

// Files of a node's data folder.
const (
	nodeLock   = "daemon.lock"
	nodeLedger = "ledger.db"
)

// nodeParts are what a backup has of a node: its identity, its ledger, and of its jails
// records, logs and snapshots.
var nodeParts = []string{"identity", nodeLedger, "jails"}

// left are parts of jails that are large, or mounted, or made again.
var left = []string{".ext4", ".reserve"}

// addNode adds the data of a stopped node to a backup.
func addNode(ctx context.Context, from, dir string, to []string) (err error) {
	if _, err := os.Stat(filepath.Join(from, nodeLedger)); err != nil {
		return fault.New(fault.Precondition, "%s is not the data folder of a node: %v", from, err).WithFix("name the --data-dir of deckhand-node; deckhand up has it in node/")
	}
	unlock, err := datalock.Lock(filepath.Join(from, nodeLock), "deckhand-node")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	var keys []age.Recipient
	for _, text := range to {
		key, err := age.ParseX25519Recipient(text)
		if err != nil {
			return fault.New(fault.Invalid, "recipient %q is not an age public key", text).WithFix("use the public key that deckhand backup key printed: age1…")
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return fault.New(fault.Invalid, "no recipient: the node's private key is not stored in clear").WithFix("name a public key with --recipient")
	}
	out, err := os.OpenFile(filepath.Join(dir, backup.NodeFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the node's data: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	sealed, err := age.Encrypt(out, keys...)
	if err != nil {
		return fmt.Errorf("encrypt the node's data: %w", err)
	}
	packed := gzip.NewWriter(sealed)
	archive := tar.NewWriter(packed)
	for _, part := range nodeParts {
		if err := pack(ctx, archive, from, part); err != nil {
			return fmt.Errorf("pack the node's data: %w", err)
		}
	}
	return errors.Join(archive.Close(), packed.Close(), sealed.Close(), out.Sync())
}

func pack(ctx context.Context, archive *tar.Writer, root, part string) error {
	return filepath.WalkDir(filepath.Join(root, part), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.IsDir() && !info.Mode().IsRegular() {
			return nil // sockets, links and devices are made again
		}
		for _, suffix := range left {
			if strings.HasSuffix(path, suffix) {
				return nil
			}
		}
		if d.IsDir() && (d.Name() == "rootfs" || d.Name() == "shown") {
			return fs.SkipDir
		}
		header, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		if header.Name, err = filepath.Rel(root, path); err != nil {
			return err
		}
		if err := archive.WriteHeader(header); err != nil || info.IsDir() {
			return err
		}
		in, err := os.Open(path) //nolint:gosec // the folder is root's own, and its node is stopped
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.CopyN(archive, in, info.Size())
		return err
	})
}

// emptyFolder refuses a folder that has files.
func emptyFolder(dir string) error {
	names, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at the node's folder: %w", err)
	}
	if len(names) > 0 {
		return fault.New(fault.Exists, "the target is not empty: %s has files", dir).WithFix("name an empty folder; nothing is overwritten")
	}
	return nil
}

// restoreNode unpacks the data of a node into an empty folder. Its ledger is marked: what the
// node did after the backup is not in it.
func restoreNode(from, dir string, keys []age.Identity) error {
	if err := emptyFolder(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o711); err != nil { //nolint:gosec // jails pass through it
		return fmt.Errorf("make the node's folder: %w", err)
	}
	in, err := os.Open(filepath.Join(from, backup.NodeFile))
	if err != nil {
		return fmt.Errorf("read the node's data: %w", err)
	}
	defer in.Close()
	sealed, err := age.Decrypt(in, keys...)
	if err != nil {
		return fault.New(fault.Denied, "the node's data cannot be read with the key of --identity").WithFix("give the key that the backup was made for").WithCause(err)
	}
	packed, err := gzip.NewReader(sealed)
	if err != nil {
		return fmt.Errorf("unpack the node's data: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the node's folder: %w", err)
	}
	defer root.Close()
	if err := unpack(tar.NewReader(packed), root); err != nil {
		return fmt.Errorf("unpack the node's data: %w", err)
	}
	return ledger.MarkRestored(filepath.Join(dir, nodeLedger), time.Now())
}

func unpack(archive *tar.Reader, root *os.Root) error {
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		mode := header.FileInfo().Mode().Perm()
		if header.Typeflag == tar.TypeDir {
			if err := root.MkdirAll(header.Name, 0o700); err != nil {
				return err
			}
			if err := root.Chmod(header.Name, mode); err != nil {
				return err
			}
		} else if err := unpackFile(archive, root, header, mode); err != nil {
			return err
		}
		if os.Geteuid() == 0 {
			if err := root.Lchown(header.Name, header.Uid, header.Gid); err != nil {
				return err
			}
		}
	}
}

func unpackFile(archive *tar.Reader, root *os.Root, header *tar.Header, mode fs.FileMode) error {
	out, err := root.OpenFile(header.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, archive, header.Size)
	return errors.Join(err, out.Sync(), out.Close())
}
