package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/node/image"
)

// Config says where jails live and what they are made with.
type Config struct {
	// DataDir is the node's data folder. Jails, workspaces, logs and the
	// extracted deckhand-init live below it. Every folder above it must be
	// searchable by everyone (0711), since jails run under user ids of their own.
	DataDir string
	// Containerd is the address of containerd's socket; empty for
	// /run/containerd/containerd.sock.
	Containerd string
	// Namespace is containerd's namespace for this node's jails; empty for
	// "deckhand".
	Namespace string
	// UIDBase is the first host user and group id of the jails' range of
	// 65 536; 0 for 1 000 000 000. Nothing else on the machine may use them.
	UIDBase uint32
	// InitPath is a deckhand-init to use instead of the embedded one.
	InitPath string
	// RootPaths are host folders that the host root shows read-only at the same
	// path, beside /usr; for example "/opt".
	RootPaths []string
	// ShowPaths are host folders that a spec's read_only_paths may name, with all
	// below them; nil for DefaultShowPaths.
	ShowPaths []string
	// JailShare is how much of the machine's CPUs, memory, processes and disk one
	// jail may have, in percent, though never less than a jail has by default; 0
	// for 75. Overcommit is how many times what the machine has the limits of all
	// jails may come to together, but for CPUs; 0 for 10.
	JailShare  int
	Overcommit float64
	// Skills are host folders that every jail sees read-only, by their names in
	// nodelink.SkillsPath.
	Skills map[string]string
	// GVisorPlatform is the platform that runsc runs with; empty for systrap if it
	// has that, and else ptrace.
	GVisorPlatform string
	// SoftWorkspaces makes workspaces plain folders, without the loop-mounted
	// file system that holds them to their size.
	SoftWorkspaces bool
	// IdleStop is after how long a jail that runs no command and is not asked
	// for is stopped; 0 for 30 minutes, negative for never. The next Ensure
	// wakes it.
	IdleStop time.Duration
	// Egress lets jails reach what their specs allow; nil for nothing at all. It
	// runs for as long as jails are asked for.
	Egress Egress
	// Images configures the store of the images that jails are made from; what it
	// does not say is the Manager's.
	Images image.Config
	// Reserve is what is kept of the disk for a full one; nil for nothing.
	Reserve DiskReserve
	// NoHostMode refuses every command on the machine itself.
	NoHostMode bool
	// Now is the clock; nil for time.Now.
	Now func() time.Time
	// Log is where the manager writes what it did by itself; nil for nowhere.
	Log hclog.Logger
}

// DiskReserve is part of the disk that is kept for when it is full.
type DiskReserve interface {
	// WithReserve runs a small write, and once more with that room given up.
	WithReserve(write func() error) error
	// Accepting refuses what is new while the disk is full.
	Accepting() error
}

// noReserve keeps nothing.
type noReserve struct{}

func (noReserve) WithReserve(write func() error) error { return write() }
func (noReserve) Accepting() error                     { return nil }

// The defaults of Config.
const (
	DefaultContainerd = "/run/containerd/containerd.sock"
	DefaultNamespace  = "deckhand"
	DefaultUIDBase    = 1_000_000_000
	DefaultIdleStop   = 30 * time.Minute
)

const (
	// uidRange is how many ids a jail's user namespace maps.
	uidRange = 65536
	// userID is the id, in the jail, that commands run under.
	userID = 1000
)

func (c Config) complete() (Config, error) {
	if c.DataDir == "" {
		return c, errors.New("jail: DataDir is empty; name the node's data folder")
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return c, fmt.Errorf("jail: DataDir %s: %w", c.DataDir, err)
	}
	c.DataDir = dir
	if c.Containerd == "" {
		c.Containerd = DefaultContainerd
	}
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	if c.UIDBase == 0 {
		c.UIDBase = DefaultUIDBase
	}
	if uint64(c.UIDBase)+uidRange > 1<<32 {
		return c, fmt.Errorf("jail: UIDBase %d leaves no room for 65536 ids; use at most %d", c.UIDBase, uint32(1<<32-uidRange))
	}
	for _, path := range c.RootPaths {
		if err := checkShown(path); err != nil {
			return c, fmt.Errorf("jail: RootPaths: %w", err)
		}
	}
	if c.ShowPaths == nil {
		c.ShowPaths = DefaultShowPaths
	}
	for _, path := range c.ShowPaths {
		if err := checkShown(path); err != nil {
			return c, fmt.Errorf("jail: ShowPaths: %w", err)
		}
	}
	if c.JailShare == 0 {
		c.JailShare = DefaultJailShare
	}
	if c.Overcommit == 0 {
		c.Overcommit = DefaultOvercommit
	}
	if c.JailShare < 1 || c.JailShare > 100 {
		return c, fmt.Errorf("jail: JailShare %d is not from 1 to 100 percent", c.JailShare)
	}
	if c.Overcommit < 0.1 || c.Overcommit > 1000 {
		return c, fmt.Errorf("jail: Overcommit %g is not from 0.1 to 1000", c.Overcommit)
	}
	if platforms := []string{"", PlatformSystrap, PlatformPtrace, PlatformKVM}; !slices.Contains(platforms, c.GVisorPlatform) {
		return c, fmt.Errorf("jail: GVisorPlatform %q is none of systrap, ptrace and kvm", c.GVisorPlatform)
	}
	if c.IdleStop == 0 {
		c.IdleStop = DefaultIdleStop
	}
	if c.Reserve == nil {
		c.Reserve = noReserve{}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return c, nil
}

// searchable ensures that a jail's processes, which are an unprivileged user on
// the host, can reach below dir. It changes our own folders, and only checks
// others.
func searchable(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return fmt.Errorf("jail: data folder: %w", err)
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("jail: the folder %s above the data folder is not searchable, so that jails cannot reach their root: run chmod o+x %s, or choose another data folder", at, at)
		}
		if at == "/" || at == "." {
			return nil
		}
	}
}

// checkShown refuses host folders that no jail may be shown.
func checkShown(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return fmt.Errorf("%q is not a clean absolute path", path)
	}
	for _, no := range []string{"/", "/proc", "/sys", "/dev", "/run", "/var/run", "/etc", "/root", "/home", "/boot", "/tmp", "/workspace", "/var"} {
		if path == no {
			return fmt.Errorf("%q contains files that a jail must not see; name a folder below it", path)
		}
	}
	for _, no := range []string{"/proc", "/sys", "/dev", "/run", "/var/run", "/root", "/home", "/etc/ssh", "/etc/ssl/private", "/workspace", "/tmp"} {
		if strings.HasPrefix(path, no+"/") || path == no {
			return fmt.Errorf("%q is below %s, which no jail is shown", path, no)
		}
	}
	return nil
}
