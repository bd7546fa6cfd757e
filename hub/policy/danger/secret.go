package danger

import (
	"slices"
	"strconv"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
)

// secretFinder finds commands that read secrets, or send them away.
type secretFinder struct{ *finder }

// secret notes that a path is a credential which is read.
func (f secretFinder) secret(c *shell.Command, p string) {
	switch {
	case secretFile(p):
		f.add(Credentials, c, "it reads the credentials %s", p)
	case p == "/dev/mem" || p == "/dev/kmem" || p == "/proc/kcore":
		f.add(Credentials, c, "it reads the memory of the machine")
	}
}

// trait is what a program does with the files that it names.
type trait uint8

const (
	// discreet programs may name a credential without showing it.
	discreet trait = 1 << iota
	// patterned programs take a first operand that is not a file.
	patterned
	// packing programs take folders with all that is in them.
	packing
	// keyed programs log in with a key that an option names.
	keyed
)

var traits = func() map[string]trait {
	out := map[string]trait{}
	for of, names := range map[trait][]string{
		discreet: {
			"ls", "stat", "test", "[", "chmod", "chown", "chgrp", "ssh", "sftp", "ssh-add", "ssh-keygen", "ssh-copy-id", "mkdir", "touch", "echo", "printf", "export", "git", "rm", "rmdir",
			"cd", "file", "du", "wc", "md5sum", "sha256sum", "sha1sum", "basename", "dirname", "realpath", "readlink", "which", "man", "apropos", "alias", ":", "true", "false", "declare", "local", "set", "unset", "readonly",
			"shred", "unlink", "sudo", "env", "nohup", "timeout", "xargs", "bash", "sh", "tree", "getfacl", "lsattr", "mosh", "autossh", "sshfs", "kill", "history", "visudo", "ssh-keyscan", "pushd", "return", "exit", "gh", "eval", "time", "nice", "kubectl", "helm", "k9s", "terraform", "aws", "gcloud", "az", "psql", "pg_dump", "mysql", "mysqldump", "ansible", "ansible-playbook", "npm", "cargo", "twine",
		},
		patterned: {"grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "awk", "gawk", "mawk", "perl", "jq", "yq"},
		packing:   {"cp", "tar", "zip", "7z", "rsync", "scp", "mv", "grep", "rg", "cpio", "rclone", "dar", "bsdtar", "restic", "borg"},
		keyed:     {"scp", "rsync", "autossh", "sshfs", "ansible"},
	} {
		for _, name := range names {
			out[name] |= of
		}
	}
	return out
}()

// secrets checks programs that show or send credentials.
func (f secretFinder) secrets(c *shell.Command, name string) {
	switch name {
	case "getent":
		if has(c, "shadow", "gshadow") {
			f.add(Credentials, c, "it reads the password hashes")
		}
	case "unshadow", "mimipenguin", "lazagne", "secretsdump.py", "linpeas.sh", "gcore":
		f.add(Credentials, c, "%s is for taking credentials", name)
	case "git":
		for i, a := range c.Args[:len(c.Args)-1] {
			if a.Text == "credential" && c.Args[i+1].Text == "fill" {
				f.add(Credentials, c, "it has git hand out credentials")
			}
		}
	case "security":
		if has(c, "find-generic-password", "dump-keychain") {
			f.add(Credentials, c, "it reads a keychain")
		}
	case "secret-tool", "pass", "gopass":
		if has(c, "lookup", "show", "search") {
			f.add(Credentials, c, "it reads a keychain")
		}
	case "gpg", "gpg2":
		if option(c, 0, "--export-secret-keys", "--export-secret-subkeys") {
			f.add(Credentials, c, "it takes secret keys out")
		}
	case "curl", "wget", "http", "https", "nc", "ncat", "netcat", "socat", "telnet", "mail", "sendmail", "xh":
		f.sends(c)
	}
	is := traits[name]
	if is&discreet != 0 {
		return
	}
	var named []string
	skip := 0
	if is&patterned != 0 && !option(c, 'e', "--regexp", "--file", "--expression") {
		skip = 1
	}
	if is&keyed != 0 {
		// The key that they log in with.
		for i, a := range c.Args {
			if i > 0 && (c.Args[i-1].Text == "-i" || c.Args[i-1].Text == "-F") {
				named = append(named, a.Text)
			}
		}
	}
	folders := is&packing != 0
	last := 0
	if folders {
		last = eachOperand(c, func(int, shell.Word) {}) - 1
	}
	eachOperand(c, func(i int, a shell.Word) {
		if i < skip || slices.Contains(named, a.Text) {
			return
		}
		text := a.Text
		if name == "dd" {
			text = strings.TrimPrefix(text, "if=")
		}
		// file=@path of curl and its like, @path, user@host:path.
		if _, after, ok := strings.Cut(text, "@"); ok && name == "curl" {
			text = after
		}
		f.named(c, text, folders && !(i == last && i > 0 && (name == "cp" || name == "mv" || name == "rsync" || name == "scp")))
	})
	for i, a := range c.Args {
		if i == 0 || !strings.HasPrefix(a.Text, "-") {
			continue
		}
		if _, v, ok := strings.Cut(a.Text, "="); ok {
			f.named(c, strings.TrimPrefix(v, "@"), false)
		}
		if name == "curl" && len(a.Text) > 2 && strings.Contains(a.Text, "@") {
			_, v, _ := strings.Cut(a.Text, "@")
			f.named(c, v, false)
		}
	}
	if name == "find" && (has(c, "-exec", "-execdir") && !has(c, "chmod", "chown", "ls", "stat", "rm") || has(c, "-delete")) {
		return
	}
	if name == "xargs" || slices.Contains(c.Via, "xargs") {
		f.comesFrom(c, func(from *shell.Command) bool {
			for i, a := range from.Args {
				if i > 0 && (from.Args[i-1].Text == "-name" || from.Args[i-1].Text == "-iname") && sensitiveName(a.Text) {
					f.add(Credentials, c, "it reads credentials named %s", a.Text)
					return true
				}
			}
			return false
		})
	}
	if slices.Contains(c.Via, "find -exec") || slices.Contains(c.Via, "find -execdir") {
		for i := range f.script.Commands {
			from := &f.script.Commands[i]
			if from.Name() != "find" || from.Line != c.Line {
				continue
			}
			for j, a := range from.Args {
				if j > 0 && (from.Args[j-1].Text == "-name" || from.Args[j-1].Text == "-iname") && sensitiveName(a.Text) {
					f.add(Credentials, c, "it reads credentials named %s", a.Text)
				}
			}
		}
	}
}

func sensitiveName(n string) bool {
	for _, s := range []string{"id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "credentials", ".netrc", ".pgpass", ".git-credentials", "shadow", "wallet.dat", "kubeconfig", ".aws", "id_*", ".kdbx"} {
		if strings.Trim(n, "*") == strings.Trim(s, "*") && strings.Trim(n, "*") != "" {
			return true
		}
	}
	return false
}

// named checks a word that may be the path of a credential.
func (f secretFinder) named(c *shell.Command, text string, folders bool) {
	if text == "" || strings.ContainsAny(text, " \n") && !strings.Contains(text, "Login Data") {
		return
	}
	if rest, ok := strings.CutPrefix(text, "file://"); ok {
		text = rest
	}
	if !inWorkspace(c, text) {
		p := at(c, shell.Word{Text: text})
		f.secret(c, p)
		if folders && secretFolder(p) {
			f.add(Credentials, c, "it takes the credentials in %s", p)
		}
	}
	if len(text) < len("crio.sock") {
		return // each of the names below is longer
	}
	if metadata(text) {
		f.add(Credentials, c, "it asks the cloud's metadata service, which hands out credentials")
	}
	if strings.Contains(text, ".sock") && (strings.Contains(text, "docker.sock") || strings.Contains(text, "containerd.sock") || strings.Contains(text, "crio.sock")) {
		f.add(Escape, c, "it speaks to the container daemon")
	}
}

// metadata reports whether a text names a cloud's metadata service.
func metadata(text string) bool {
	if strings.IndexByte(text, '2') >= 0 && slices.ContainsFunc(metadataAddresses, func(a string) bool { return strings.Contains(text, a) }) {
		return true
	}
	return strings.Contains(text, "metadata.google.internal") ||
		(strings.IndexByte(text, 'x') >= 0 || strings.IndexByte(text, 'X') >= 0) && strings.Contains(strings.ToLower(text), "0xa9fea9fe")
}

// metadataAddresses are the addresses of the clouds' metadata services; each has a 2.
var metadataAddresses = []string{"169.254.169.254", "[fd00:ec2::254]", "169.254.170.2", "100.100.100.200", "//2852039166"}

// inWorkspace reports whether a word of a command can only name a file in the workspace
// without a hidden part in its path. Most words do, and no credential does.
func inWorkspace(c *shell.Command, text string) bool {
	if c.Follows() || text == "" || text[0] == '/' {
		return false
	}
	below, ok := strings.CutPrefix(c.Dir, shell.Workspace)
	return ok && (below == "" || below[0] == '/') && shown(below) && shown(text)
}

// shown reports whether a path has no hidden part, no wildcard and nothing that is
// not known.
func shown(p string) bool {
	begins := true
	for i := range len(p) {
		switch ch := p[i]; {
		case ch >= 0x80, ch == '*', ch == '?', ch == '[', ch == '(', begins && (ch == '.' || ch == '_'):
			return false
		default:
			begins = ch == '/'
		}
	}
	return true
}

// sends checks programs that send what they read.
func (f secretFinder) sends(c *shell.Command) {
	f.comesFrom(c, func(from *shell.Command) bool {
		switch from.Name() {
		case "env", "printenv", "set", "export":
			if len(from.Args) == 1 || has(from, "-0", "-p") {
				f.add(Credentials, c, "it sends the environment elsewhere")
				return true
			}
		case "cat", "base64", "base32", "xxd", "od", "gzip", "tar", "head", "tail", "openssl":
			for _, p := range slices.Concat(operands(from), from.Reads) {
				if settings(at(from, p)) {
					f.add(Credentials, c, "it sends the credentials in %s elsewhere", at(from, p))
					return true
				}
			}
		}
		return false
	})
}

// settings reports whether a path is a file of environment variables that holds values,
// not examples.
func settings(p string) bool {
	return shellSettings.MatchString(p) && !exampleSettings.MatchString(p)
}

var (
	shellSettings   = compile(`/\.env(?:\.[\w-]+)*$`)
	exampleSettings = compile(`\.(?:example|sample|template|dist|defaults?|tmpl)$`)
)

// environment checks variables that change what programs do.
func (f secretFinder) environment(c *shell.Command) {
	look := func(name, v string) {
		switch {
		case name == "HISTFILE" && (v == "" || v == "/dev/null" || strings.HasPrefix(v, "/tmp") || strings.HasPrefix(v, "/dev")),
			(name == "HISTSIZE" || name == "HISTFILESIZE") && (v == "0" || v == ""),
			name == "HISTCONTROL" && strings.Contains(v, "ignoreall"), name == "HISTIGNORE" && strings.Trim(v, "*") == "" && v != "":
			f.add(History, c, "it has the shell keep no history")
		case (name == "LD_PRELOAD" || name == "LD_AUDIT") && v != "" && !installed(v):
			f.add(HiddenCode, c, "it has programs load %s before anything else", v)
		}
	}
	for _, e := range c.Env {
		name, v, _ := strings.Cut(e, "=")
		look(name, v)
	}
	switch c.Name() {
	case "export", "declare", "typeset", "readonly", "local", "env":
		for _, a := range c.Args[1:] {
			if name, v, ok := strings.Cut(a.Text, "="); ok {
				look(name, v)
			}
		}
	}
}

// installed reports whether a library is where packages put them, or is found there.
func installed(library string) bool {
	for name := range strings.FieldsFuncSeq(library, func(r rune) bool { return r == ':' || r == ' ' }) {
		if !strings.HasPrefix(name, "/usr/") && !strings.HasPrefix(name, "/lib") && !strings.HasPrefix(name, "/opt/") && strings.Contains(name, "/") {
			return false
		}
	}
	return true
}

// covers checks for wiping of histories and silencing of logs.
func (f secretFinder) covers(c *shell.Command, name string) {
	switch name {
	case "history":
		if option(c, 'c') || option(c, 'd') || has(c, "clear", "-p") && name == "fish" {
			f.add(History, c, "it wipes the shell's history")
		}
	case "fc":
		if option(c, 'p') {
			f.add(History, c, "it has the shell keep no history")
		}
	case "unset":
		if has(c, "HISTFILE", "HISTSIZE", "HISTFILESIZE", "HISTCMD") {
			f.add(History, c, "it has the shell keep no history")
		}
	case "set", "shopt":
		if has(c, "+o") && has(c, "history") || name == "set" && has(c, "+H", "+o") && has(c, "history") || name == "shopt" && option(c, 'u') && option(c, 'o') && has(c, "history") {
			f.add(History, c, "it has the shell keep no history")
		}
	case "ln":
		if ops := operands(c); len(ops) == 2 && ops[0].Text == "/dev/null" {
			f.history(c, at(c, ops[1]))
			f.log(c, at(c, ops[1]))
		}
	case "systemctl", "service", "rc-service", "invoke-rc.d", "initctl", "launchctl", "chkconfig", "update-rc.d":
		stops := has(c, "stop", "disable", "mask", "kill", "off", "remove")
		for _, a := range operands(c) {
			s := strings.TrimSuffix(strings.TrimSuffix(a.Text, ".service"), ".socket")
			if stops && slices.Contains(guards, s) {
				f.add(Logs, c, "it stops %s", s)
			}
		}
	case "pkill", "killall", "kill":
		for _, a := range operands(c) {
			if slices.Contains(guards, strings.TrimPrefix(a.Text, "^")) {
				f.add(Logs, c, "it ends %s", a.Text)
			}
		}
		f.comesFrom(c, func(from *shell.Command) bool {
			if from.Name() == "pidof" || from.Name() == "pgrep" {
				for _, a := range operands(from) {
					if slices.Contains(guards, a.Text) {
						f.add(Logs, c, "it ends %s", a.Text)
						return true
					}
				}
			}
			return false
		})
	case "auditctl":
		if has(c, "-D") || has(c, "-e") && has(c, "0") || has(c, "-e0") {
			f.add(Logs, c, "it turns auditing off")
		}
	case "journalctl":
		for i, a := range c.Args {
			flag, v, ok := strings.Cut(a.Text, "=")
			if !ok && i+1 < len(c.Args) {
				v = c.Args[i+1].Text
			}
			if strings.HasPrefix(flag, "--vacuum-") && little(v) {
				f.add(Logs, c, "it throws the journal away")
			}
		}
	case "dmesg":
		if option(c, 'C', "--clear") || option(c, 'c', "--read-clear") {
			f.add(Logs, c, "it clears the kernel's log")
		}
	case "setenforce":
		if has(c, "0", "Permissive", "permissive") {
			f.add(Logs, c, "it turns SELinux off")
		}
	case "ufw", "iptables", "ip6tables", "nft", "aa-teardown", "aa-disable", "aa-complain", "firewall-cmd":
		if name == "aa-teardown" || name == "aa-disable" || has(c, "disable", "-F", "--flush", "flush", "reset", "--panic-off") {
			f.add(Logs, c, "it takes a protection of the machine away")
		}
	case "wevtutil", "logsave", "utmpdump":
		if name == "wevtutil" && has(c, "cl") {
			f.add(Logs, c, "it clears a log")
		}
	}
}

// guards are services that record or protect.
var guards = []string{
	"rsyslog", "rsyslogd", "syslog", "syslogd", "syslog-ng", "systemd-journald", "journald", "auditd", "apparmor", "fail2ban", "fail2ban-server", "crowdsec", "falco", "falcon-sensor", "clamav-daemon", "clamd",
	"wazuh-agent", "ossec", "osqueryd", "osquery", "firewalld", "ufw", "snort", "suricata", "aide", "samhain", "auditbeat", "filebeat", "vector", "fluentd", "fluent-bit", "deckhand", "deckhand-node", "klogd",
}

// little reports whether a size or an age leaves nothing of a log.
func little(v string) bool {
	digits := strings.TrimRight(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return false
	}
	switch unit := strings.ToLower(strings.TrimPrefix(v, digits)); unit {
	case "", "b", "k", "kb", "s", "sec", "second", "seconds", "m", "mb", "min":
		return unit != "m" && unit != "mb" && unit != "k" || n <= 10
	case "h", "hour", "hours":
		return n <= 1
	case "files":
		return n <= 1
	}
	return n == 0
}
