package danger

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
)

func sprintf(format string, args ...any) string {
	if len(args) == 0 {
		return format // without a % in it
	}
	return fmt.Sprintf(format, args...)
}

// roots are folders whose loss destroys a machine or an agent's work.
var roots = []string{
	"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/usr", "/var",
	"/mnt", "/media", "/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin", "/usr/local", "/usr/local/bin", "/usr/share", "/var/lib", "/var/log", "/var/spool", "/var/mail", "/etc/ssh",
	"/etc/ssl", "/etc/pam.d", "/etc/systemd", "/lib/modules", "/lib/systemd", "/boot/grub", "/boot/efi", shell.Workspace, "/var/lib/dpkg", "/var/lib/docker",
	"/var/lib/containerd", "/var/lib/postgresql", "/var/lib/mysql", "/Users", "/System", "/Library",
}

// criticalFiles are files without which logins or the boot fail.
var criticalFiles = []string{
	"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/sudoers", "/etc/fstab", "/etc/hosts", "/etc/resolv.conf", "/etc/ld.so.cache", "/etc/ld.so.preload",
	"/etc/nsswitch.conf", "/etc/crypttab", "/etc/machine-id", "/bin/sh", "/bin/bash", "/boot/vmlinuz", "/boot/grub/grub.cfg", "/sbin/init", "/lib/ld-linux.so.2",
	"/lib64/ld-linux-x86-64.so.2", "/bin/ls", "/usr/bin/env", "/lib/x86_64-linux-gnu/libc.so.6",
}

func wild(p string) bool { return shell.IsPattern(p) }

// root returns the root that a path is, or of which it matches everything; "" otherwise.
// A path may have wildcards.
func root(p string) string {
	if p == "" {
		return ""
	}
	if p == "/" || p == "/*" || p == "/.*" || p == "/**" {
		return "/"
	}
	dir, last := path.Split(p)
	dir = path.Clean(dir)
	// Everything of a root: /etc/*, /home/.[!.]*, /usr/**.
	if wild(last) && strings.Trim(last, "*?.[]!^") == "" && len(last) <= 8 {
		if r := root(dir); r != "" {
			return r
		}
	}
	if !wild(p) {
		if slices.Contains(roots, p) || home(p) {
			return p
		}
		return ""
	}
	for _, r := range roots {
		if shell.Matches(p, r) {
			return r
		}
	}
	if home(p) {
		return p
	}
	return ""
}

// home reports whether a path is a user's home folder.
func home(p string) bool {
	rest, ok := strings.CutPrefix(p, "/home/")
	if !ok {
		rest, ok = strings.CutPrefix(p, "/Users/")
	}
	return ok && rest != "" && !strings.Contains(rest, "/")
}

// critical reports whether a path is one of the critical files.
func critical(p string) bool {
	if !wild(p) {
		return slices.Contains(criticalFiles, p)
	}
	return slices.ContainsFunc(criticalFiles, func(c string) bool {
		return shell.Matches(p, c)
	})
}

var device = compile(`^/dev/(?:[shv]d[a-z*?]|xvd|nvme|mmcblk|disk/|mapper/|dm-|md\d|md/|loop\d|nbd|zd\d|zvol|ram\d|root$|block/|mem$|kmem$|port$|fd\d*$|sr\d|vg|rdisk|\*|s\?|\?)`)

// block reports whether a path is a disk, or memory.
func block(p string) bool {
	return device.MatchString(p) && !strings.HasPrefix(p, "/dev/fd/") && p != "/dev/fd"
}

// secretPaths are where credentials lie, as path.Match patterns; those that do
// not begin at the root are looked for at the end.
var secretPaths = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/master.passwd", "/etc/security/opasswd", "/etc/krb5.keytab", "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ed25519_key",
	"/etc/ssh/ssh_host_ecdsa_key", "/etc/ssl/private/*", "/etc/pki/tls/private/*", "/etc/letsencrypt/live/*/privkey.pem", "/etc/kubernetes/admin.conf", "/etc/kubernetes/pki/*.key", "/etc/rancher/k3s/k3s.yaml", "/etc/wireguard/*", "/etc/openvpn/*.key", "/etc/NetworkManager/system-connections/*", "/etc/ppp/chap-secrets", "/etc/docker/key.json",
	"/etc/deckhand/*", "/var/lib/deckhand/*", "/run/secrets/*", "/var/run/secrets/*", "/var/run/secrets/kubernetes.io/serviceaccount/token",
	"/run/secrets/kubernetes.io/serviceaccount/token", "/proc/*/environ", "/proc/kcore", "/proc/*/mem", "/dev/mem", "/dev/kmem", "/var/lib/docker/containers/*", "/var/lib/sss/db/*", "/var/lib/samba/private/*", "/var/spool/cron/crontabs/root",
	".ssh/id_rsa", ".ssh/id_dsa", ".ssh/id_ecdsa", ".ssh/id_ed25519", ".ssh/id_ed25519_sk", ".ssh/identity", ".aws/credentials", ".aws/sso/cache/*", ".aws/cli/cache/*",
	".config/gcloud/credentials.db", ".config/gcloud/access_tokens.db", ".config/gcloud/application_default_credentials.json", ".config/gcloud/legacy_credentials/*", ".azure/accessTokens.json",
	".azure/msal_token_cache.json", ".azure/azureProfile.json", ".kube/config", ".docker/config.json", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".git-credentials", ".config/git/credentials", ".config/gh/hosts.yml", ".config/hub",
	".npmrc", ".pypirc", ".gem/credentials", ".cargo/credentials", ".cargo/credentials.toml", ".terraform.d/credentials.tfrc.json", ".vault-token", ".config/rclone/rclone.conf", ".s3cfg", ".boto", ".m2/settings.xml",
	".gnupg/secring.gpg", ".gnupg/private-keys-v1.d/*", ".password-store/*", ".local/share/keyrings/*", ".config/doctl/config.yaml", ".anthropic/api_key", ".config/openai/*", ".claude/.credentials.json", ".codex/auth.json", ".composer/auth.json", ".htpasswd",
	".mozilla/firefox/*/logins.json", ".mozilla/firefox/*/key4.db", ".config/google-chrome/Default/Login Data", ".config/google-chrome/*/Cookies", ".config/chromium/Default/Login Data", ".electrum/wallets/*", ".bitcoin/wallet.dat", ".ethereum/keystore/*", ".config/solana/id.json",
}

// secretPattern is one of secretPaths, with the text before its first wildcard if it has
// one.
type secretPattern struct {
	path, before string
	glob         bool
	// found is a path that it fits.
	found string
}

var secretPatterns = func() (out []secretPattern) {
	for _, p := range secretPaths {
		before, _, glob := strings.Cut(p, "*")
		out = append(out, secretPattern{path: p, before: before, glob: glob, found: representative(p)})
	}
	return out
}()

// secretFolders are folders whose whole is a credential.
var secretFolders = []string{".ssh", ".aws", ".gnupg", ".kube", ".azure", ".config/gcloud", ".password-store", ".local/share/keyrings", "/etc/ssl/private", "/run/secrets", "/var/run/secrets", "/etc/ssh", ".docker"}

// secretFile reports whether a path is a credential, or that wildcards in it would find
// one.
func secretFile(p string) bool {
	if p == "" || strings.HasSuffix(p, ".pub") || !wild(p) && ordinary(p) {
		return false
	}
	globbed := wild(p)
	specific := globbed && specific(p)
	return slices.ContainsFunc(secretPatterns, func(s secretPattern) bool {
		switch {
		case globbed:
			return matchesEnd(s.path, p) || specific && matchesEnd(p, s.found)
		case s.glob:
			return strings.Contains(p, s.before) && matchesEnd(s.path, p)
		}
		return p == s.path || s.path[0] != '/' && strings.HasSuffix(p, s.path) && strings.HasSuffix(p, "/"+s.path)
	})
}

// ordinary reports whether no credential is where a path leads: quickly, for most.
func ordinary(p string) bool {
	if strings.Contains(p, "/.") || strings.Contains(p, "/_") {
		return false
	}
	for _, dir := range []string{"/etc/", "/var/", "/run/", "/proc/", "/dev/"} {
		if strings.HasPrefix(p, dir) {
			return false
		}
	}
	return true
}

// representative is a path that a pattern matches.
func representative(pattern string) string {
	if !strings.HasPrefix(pattern, "/") {
		pattern = shell.Workspace + "/" + pattern
	}
	return strings.ReplaceAll(pattern, "*", "x")
}

// specific reports whether a pattern's last parts are more than a wildcard below a
// general folder: not /etc/* or *.
func specific(p string) bool {
	last := path.Base(p)
	return len(strings.Trim(last, "*?[]")) >= 2 || strings.Contains(p, "/.ssh/") || strings.Contains(p, "/.s") || strings.Contains(p, "/.aws/") || strings.Contains(p, "/.gnupg/")
}

func matchesEnd(pattern, p string) bool {
	if strings.HasPrefix(pattern, "/") {
		return shell.Matches(pattern, p)
	}
	end := len(p)
	for range strings.Count(pattern, "/") {
		if end = strings.LastIndexByte(p[:end], '/'); end < 0 {
			return false
		}
	}
	return shell.Matches(pattern, p[strings.LastIndexByte(p[:end], '/')+1:])
}

// secretFolder reports whether a path is a folder of credentials, or all that is in it.
func secretFolder(p string) bool {
	p = strings.TrimSuffix(p, "/*")
	return slices.ContainsFunc(secretFolders, func(s string) bool {
		return strings.HasPrefix(s, "/") && p == s || !strings.HasPrefix(s, "/") && strings.HasSuffix(p, "/"+s)
	})
}
