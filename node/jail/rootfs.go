package jail

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/deckhand-sh/deckhand/internal/nodelink"
)

// The host root is made by allow-list: /usr as it is, an /etc of our own
// making, and nothing else of the machine. A secret is not masked in it, it is
// not there.

// agentUser and agentGroup are the lines of passwd(5) and group(5) of the user that
// commands run under.
var (
	agentUser  = fmt.Sprintf("agent:x:%d:%d:agent:/workspace:/bin/sh", userID, userID)
	agentGroup = fmt.Sprintf("agent:x:%d:", userID)
)

// etcTexts are written by us, so that nothing of the machine's own accounts,
// names and resolvers shows.
func etcTexts() map[string]string {
	return map[string]string{
		"passwd": "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n" + agentUser + "\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"group":         "root:x:0:\ntty:x:5:\n" + agentGroup + "\nnogroup:x:65534:\n",
		"hosts":         "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
		"resolv.conf":   "",
		"shells":        "/bin/sh\n/bin/bash\n",
	}
}

// etcFiles are copied from the machine when it has them: they are the same on
// every machine of its kind, and programs need them.
var etcFiles = []string{
	"ld.so.cache", "ld.so.conf", "localtime", "timezone", "services", "protocols", "mime.types",
	"debian_version", "os-release", "redhat-release", "alpine-release", "lsb-release", "magic",
	"login.defs", "bash.bashrc", "profile", "inputrc", "ssl/openssl.cnf", "ca-certificates.conf",
}

// etcFolders are shown as they are. None may hold a private key.
var etcFolders = []string{
	"alternatives", "ssl/certs", "pki/tls/certs", "pki/ca-trust/extracted", "crypto-policies",
	"ld.so.conf.d", "fonts", "perl", "python3", "java-17-openjdk", "java-21-openjdk", "terminfo",
}

// usrLinks are the links of a merged /usr. Where the machine has folders of
// their own instead, those are shown.
var usrLinks = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// rootFolders are in every root, to be mounted on.
var rootFolders = []string{
	"usr", "etc", "proc", "sys", "dev", "tmp", "var", "run/deckhand", "workspace", "deckhand/out", "deckhand/trust",
}

// initMount is where deckhand-init is in a jail.
const initMount = "/.deckhand-init"

// buildEtc makes the folder that every jail has for its /etc and returns it. It
// is made again by each daemon; jails that run keep what they were given.
func buildEtc(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the old /etc of jails: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the /etc of jails: %w", err)
	}
	for name, text := range etcTexts() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("make the /etc of jails: %w", err)
		}
	}
	for _, name := range etcFiles {
		if err := copyFile(filepath.Join("/etc", name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("make the /etc of jails: %w", err)
		}
	}
	for _, name := range etcFolders {
		if isDir(filepath.Join("/etc", name)) {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				return fmt.Errorf("make the /etc of jails: %w", err)
			}
		}
	}
	// To be mounted on: see trust.
	for _, path := range chromiumPolicies {
		at := filepath.Join(dir, strings.TrimPrefix(path, "/etc/"))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte("{}\n"), 0o644)); err != nil {
			return fmt.Errorf("make the /etc of jails: %w", err)
		}
	}
	return nil
}

// copyFile copies a file that everyone may read; any other is left out.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o004 == 0 {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// bind returns a read-only bind mount of a host path, with all that is mounted
// below it. Where the kernel cannot make that read-only as well, it is left out.
func bind(from, to string) specs.Mount {
	options := []string{"rbind", "ro", "rro", "nosuid", "rnosuid", "nodev", "rnodev"}
	if !recursive() {
		options = []string{"bind", "ro", "nosuid", "nodev"}
	}
	return specs.Mount{Type: "bind", Source: from, Destination: to, Options: options}
}

// programs returns the mounts of init, deckhand-skill, the node's packs and the operator's skills,
// which every jail has.
func (m *Manager) programs() []specs.Mount {
	mounts := []specs.Mount{bind(m.initPath, initMount)}
	if m.skillPath != "" {
		mounts = append(mounts, bind(m.skillPath, nodelink.SkillPath))
	}
	mounts = append(mounts, bind(m.packs.Shown(), nodelink.PacksPath))
	for _, name := range slices.Sorted(maps.Keys(m.cfg.Skills)) {
		mounts = append(mounts, bind(m.cfg.Skills[name], filepath.Join(nodelink.SkillsPath, name)))
	}
	return mounts
}

// hostRoot lays out a jail's root folder and returns the mounts that fill it.
func hostRoot(root, etc string, programs, shown []specs.Mount) ([]specs.Mount, error) {
	for _, name := range rootFolders {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return nil, fmt.Errorf("make the jail's root: %w", err)
		}
	}
	// runc gives a tmpfs the mode of the folder below it.
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky); err != nil {
		return nil, fmt.Errorf("make the jail's root: %w", err)
	}
	for name, to := range map[string]string{"var/tmp": "/tmp", "var/run": "/run"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make the jail's root: %w", err)
		}
	}
	mounts := []specs.Mount{bind("/usr", "/usr"), bind(etc, "/etc")}
	for _, name := range usrLinks {
		host := "/" + name
		target, err := os.Readlink(host)
		switch {
		case err == nil:
			if err := os.Symlink(target, filepath.Join(root, name)); err != nil && !errors.Is(err, os.ErrExist) {
				return nil, fmt.Errorf("make the jail's root: %w", err)
			}
		case isDir(host):
			mounts = append(mounts, bind(host, host))
		}
	}
	for _, name := range etcFolders {
		if host := filepath.Join("/etc", name); isDir(host) {
			mounts = append(mounts, bind(host, host))
		}
	}
	mounts = append(mounts, programs...)
	mounts = append(mounts, shown...)
	for _, m := range mounts {
		if err := mountPoint(root, m); err != nil {
			return nil, err
		}
	}
	return mounts, nil
}

// mountPoint makes what a mount is put on, where the root itself must have it.
func mountPoint(root string, m specs.Mount) error {
	if strings.HasPrefix(m.Destination, "/etc/") || strings.HasPrefix(m.Destination, "/usr/") {
		return nil // on a mount that has it already
	}
	at := filepath.Join(root, m.Destination)
	info, err := os.Stat(m.Source)
	if err != nil {
		return fmt.Errorf("show %s in the jail: %w", m.Source, err)
	}
	if info.IsDir() {
		err = os.MkdirAll(at, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(at), 0o755); err == nil {
		err = os.WriteFile(at, nil, 0o644)
	}
	if err != nil {
		return fmt.Errorf("make the jail's root: %w", err)
	}
	return nil
}
