// Package containerd runs a private containerd, for `deckhand up` and for
// tests, on machines where none is running. It uses the machine's own binary
// with a private root, state folder, socket and configuration in one folder,
// without CRI and other plugins that jails do not need. It never touches
// another containerd.
//
// Jails survive it: they belong to their shims, and the next containerd finds
// them again. A containerd that a killed parent left running is adopted.
package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/deckhand-sh/deckhand/internal/child"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Config says where the private containerd lives.
type Config struct {
	// DataDir holds its root, state, socket, pid file and log. It is made when
	// absent, searchable by all: jails in a user namespace must pass through
	// it. Whoever starts containerd holds a lock on it.
	DataDir string
	// Bin is the binary; empty for the one in PATH.
	Bin string
}

// Daemon is the private containerd. It is a lifecycle.Service.
type Daemon struct {
	*child.Process

	dir     string
	address string
}

// path is where Debian and containerd's own releases put the binaries.
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// maxSocket keeps the socket's path below sockaddr_un's 108 bytes; containerd
// appends ".ttrpc" for a second one.
const maxSocket = 100 - len(".ttrpc")

// Complete finds the binaries and makes the folder. It starts nothing.
func (c Config) Complete(context.Context) (*Daemon, error) {
	if os.Geteuid() != 0 {
		return nil, fault.New(fault.Precondition, "containerd must be started by root, and so must the jails it makes").
			WithFix("run this as root, or name a running containerd with --containerd")
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil || c.DataDir == "" {
		return nil, fmt.Errorf("the containerd data folder %q is not usable: %w", c.DataDir, errors.Join(err, os.ErrInvalid))
	}
	bin, err := find(c.Bin)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("make the containerd data folder: %w", err)
	}
	d := &Daemon{dir: dir, address: filepath.Join(dir, "containerd.sock")}
	if len(d.address) > maxSocket {
		// It follows from the folder, so that the next start looks there too.
		sum := sha256.Sum256([]byte(dir))
		d.address = filepath.Join("/run", "deckhand-ctr-"+hex.EncodeToString(sum[:6])+".sock")
	}
	d.Process = child.New(child.Config{
		Name: "containerd", StateDir: dir, Path: bin, Args: []string{"--config", d.configFile()},
		Env: []string{"PATH=" + filepath.Dir(bin) + ":" + path}, Dir: dir,
		Ready: func(ctx context.Context) error { return Check(ctx, d.address) },
	})
	return d, nil
}

// Start implements lifecycle.Service: it adopts or starts containerd and
// returns when it serves.
func (d *Daemon) Start(ctx context.Context) error {
	if err := os.WriteFile(d.configFile(), []byte(d.config()), 0o600); err != nil {
		return fmt.Errorf("write containerd's configuration: %w", err)
	}
	return d.Process.Start(ctx)
}

// Address returns the path of its socket.
func (d *Daemon) Address() string { return d.address }

func (d *Daemon) configFile() string { return filepath.Join(d.dir, "config.toml") }

// unwanted plugins touch what is not ours (CRI the network, NRI a socket of
// its own) or are of no use to jails. Names that a version does not know do no
// harm.
var unwanted = []string{
	"io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime",
	"io.containerd.podsandbox.controller.v1.podsandbox", "io.containerd.nri.v1.nri",
	"io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
	"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile",
	"io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs",
	"io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
}

// config is of version 2, which containerd 1.6 to 2.x read.
func (d *Daemon) config() string {
	var quoted []string
	for _, name := range unwanted {
		quoted = append(quoted, strconv.Quote(name))
	}
	return fmt.Sprintf(`# Written by Deckhand at each start.
version = 2
root = %q
state = %q
disabled_plugins = [%s]

[grpc]
  address = %q

[plugins."io.containerd.internal.v1.opt"]
  path = %q
`, filepath.Join(d.dir, "root"), filepath.Join(d.dir, "state"), strings.Join(quoted, ", "),
		d.address, filepath.Join(d.dir, "opt"))
}

func find(bin string) (string, error) {
	fix := "apt-get install containerd runc, or name a running containerd with --containerd"
	if bin == "" {
		bin = "containerd"
	}
	found, err := exec.LookPath(bin)
	if err != nil {
		return "", fault.New(fault.Precondition, "containerd is not installed: %v", err).WithFix("%s", fix)
	}
	if found, err = filepath.Abs(found); err != nil {
		return "", fmt.Errorf("find containerd: %w", err)
	}
	for _, other := range []string{"containerd-shim-runc-v2", "runc"} {
		if !inPath(other, filepath.Dir(found)+":"+path) {
			return "", fault.New(fault.Precondition, "%s, which containerd needs, is not installed", other).WithFix("%s", fix)
		}
	}
	return found, nil
}

func inPath(name, path string) bool {
	for _, dir := range filepath.SplitList(path) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// Check returns nil when a containerd serves at the address, the path of a
// Unix socket.
func Check(ctx context.Context, address string) error {
	_, err := Version(ctx, address)
	return err
}

// Version returns the version of the containerd that serves at the address.
func Version(ctx context.Context, address string) (string, error) {
	if _, err := os.Stat(address); err != nil {
		return "", fmt.Errorf("no containerd at %s: %w", address, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := grpc.NewClient("unix:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", fmt.Errorf("no containerd at %s: %w", address, err)
	}
	defer conn.Close()
	c, err := client.NewWithConn(conn)
	if err != nil {
		return "", fmt.Errorf("no containerd at %s: %w", address, err)
	}
	version, err := c.Version(ctx)
	if err != nil {
		return "", fmt.Errorf("no containerd at %s: %w", address, err)
	}
	return version.Version, nil
}

// Running reports whether a containerd serves at the address.
func Running(address string) bool { return Check(context.Background(), address) == nil }
