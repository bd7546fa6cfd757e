package shell

import (
	"cmp"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Access is what a command does with a file that it names.
type Access int

// The accesses. Either is that of a program that nothing is known of.
const (
	Reads Access = iota
	Writes
	Either
)

// Operand is a file that a command names, from the root.
type Operand struct {
	Word
	Access Access
	// Tree reports that the operand includes everything below it.
	Tree bool
}

// usage describes which of a program's words are files.
type usage struct {
	// skip is how many operands come before the files, such as the pattern of grep.
	skip int
	// unless lists options that replace those operands.
	unless []string
	// takes and long are options whose value is no file, pairs those that take two.
	takes string
	long  []string
	pairs []string
	// reads and writes are options whose value is a file.
	reads, writes []string
	// access is what the program does to its operands; last reports that it writes the
	// last one.
	access Access
	last   bool
	// trees lists options that make the program include everything below its operands;
	// always reports that it does so without an option.
	trees  []string
	always bool
	// none reports that its operands are not files.
	none bool
}

// usages are those of the usual programs.
var usages = func() map[string]usage {
	out := map[string]usage{
		"dd": {none: true}, "find": {trees: list("-delete -exec -execdir")}, "curl": {none: true, takes: "AbcdeHmPQrtuwXyYzxE", reads: list("-K --config -T --upload-file --cacert --cert -E --key --netrc-file"), writes: list("-o --output --output-dir -c --cookie-jar -D --dump-header --trace --trace-ascii")},
		"wget": {none: true, takes: "tTwQUeAR", reads: list("-i --input-file --post-file --body-file --load-cookies"), writes: list("-O --output-document -o --output-file -P --directory-prefix -a --append-output --save-cookies")},
		"tar":  {takes: "bHLNKVgX", reads: list("-T --files-from -X --exclude-from"), trees: list("-c --create"), always: true, access: Either, writes: list("-C --directory")}, "unzip": {writes: list("-d"), skip: 0}, "zip": {trees: list("-r -R"), access: Reads, always: true}, "7z": {skip: 1, always: true, access: Either},
		"cp": {last: true, trees: list("-r -R -a --recursive --archive"), writes: list("-t --target-directory"), takes: "S", long: list("--suffix")}, "mv": {access: Writes, last: true, always: true, writes: list("-t --target-directory"), takes: "S"},
		"install": {last: true, takes: "mogS", long: list("--mode --owner --group"), writes: list("-t --target-directory")}, "ln": {last: true, writes: list("-t --target-directory")}, "link": {last: true},
		"rsync": {last: true, always: true, takes: "eBMTf", long: list("--rsh --exclude --include --filter --max-size --min-size --port --chmod --chown --timeout --bwlimit --rsync-path --info --out-format"), reads: list("--exclude-from --include-from --files-from --password-file"), writes: list("--log-file --backup-dir --partial-dir")},
		"scp":   {last: true, always: true, takes: "cFiJloPSX"}, "sftp": {takes: "bBcDFiJloPRSs", reads: list("-b -i")}, "ssh": {none: true, reads: list("-i -F")}, "ssh-copy-id": {none: true, reads: list("-i")},
		"grep": {skip: 1, unless: list("-e -f --regexp --file"), takes: "eABCmdD", long: list("--regexp --after-context --before-context --context --max-count --color --include --exclude --exclude-dir"), reads: list("-f --file"), trees: list("-r -R --recursive --dereference-recursive")},
		"rg":   {skip: 1, unless: list("-e -f --files"), takes: "eABCmgtTjMEr", reads: list("-f"), always: true}, "ag": {skip: 1, takes: "ABCmGg", always: true}, "ack": {skip: 1, always: true},
		"sed": {skip: 1, unless: list("-e -f --expression --file"), takes: "e", reads: list("-f --file")}, "awk": {skip: 1, unless: list("-f --file"), takes: "vF", reads: list("-f --file")}, "jq": {skip: 1, long: list("--indent"), pairs: list("--arg --argjson --slurpfile --rawfile"), unless: list("-f --from-file"), reads: list("-f --from-file")}, "yq": {skip: 1},
		"chmod": {skip: 1, access: Writes, trees: list("-R --recursive"), long: list("--reference")}, "chown": {skip: 1, access: Writes, trees: list("-R --recursive")}, "chgrp": {skip: 1, access: Writes, trees: list("-R --recursive")}, "setfacl": {access: Writes, takes: "mxMX"}, "chattr": {skip: 1, access: Writes},
		"rm": {access: Writes, trees: list("-r -R --recursive -f")}, "rmdir": {access: Writes}, "unlink": {access: Writes}, "shred": {access: Writes, takes: "ns"}, "truncate": {access: Writes, takes: "sr"}, "touch": {access: Writes, takes: "drt"}, "mkdir": {access: Writes, takes: "m"}, "mktemp": {none: true}, "tee": {access: Writes}, "sponge": {access: Writes}, "mkfifo": {access: Writes, takes: "m"}, "patch": {access: Writes, takes: "pdioDF", reads: list("-i --input"), writes: list("-o -d")},
		"head": {takes: "nc", long: list("--lines --bytes")}, "tail": {takes: "ncs", long: list("--lines --bytes --pid")}, "cut": {takes: "dfbc", long: list("--delimiter --fields --output-delimiter")}, "sort": {takes: "tkST", writes: list("-o --output")}, "uniq": {takes: "fsw"}, "xxd": {takes: "lcsg", last: false}, "od": {takes: "tANjw"}, "diff": {takes: "UCLIxX", trees: list("-r --recursive")}, "split": {takes: "blnad"}, "xargs": {none: true, reads: list("-a --arg-file")}, "base64": {takes: "w"}, "fold": {takes: "w"}, "column": {takes: "tso"}, "paste": {takes: "d"}, "join": {takes: "t12oaev"}, "fmt": {takes: "w"}, "nl": {takes: "bnwsvif"}, "vim": {access: Writes, takes: "cu"}, "nano": {access: Writes}, "ed": {access: Writes}, "emacs": {access: Writes},
		"openssl": {none: true, reads: list("-in -inkey -CAfile -cert -key"), writes: list("-out -keyout")}, "gpg": {takes: "rou", writes: list("-o --output")}, "du": {takes: "dB"}, "tree": {takes: "LIP", always: true},
		"ls": {takes: "IwT"}, "source": {}, ".": {}, "python": {none: true}, "make": {none: true, takes: "jloW", reads: list("-f --file -C --directory -I")}, "sqlite3": {takes: "s"},
	}
	for _, name := range list("cat less more tac rev strings wc md5sum sha1sum sha256sum sha512sum cksum file stat nl expand unexpand hexdump bat batcat view zcat bzcat xzcat gunzip gzip xz bzip2 comm cmp iconv dos2unix readlink realpath csplit look pr ptx shuf tsort zless zgrep xdg-open open") {
		if _, ok := out[name]; !ok {
			out[name] = usage{}
		}
	}
	// Their words are texts, names and numbers.
	for _, name := range list(`echo printf kill pkill killall export declare typeset local readonly set unset shift test [ [[ true false : seq sleep exit return break continue wait expr let date basename dirname
		type which hash alias unalias trap read mapfile readarray jobs fg bg umask ulimit id whoami groups hostname uname nproc command builtin getopts yes tput stty ps pgrep pidof nice renice tr logger write wall say notify-send
		cd pushd popd dirs useradd usermod groupadd passwd su crontab systemctl service eval exec env sudo nohup timeout time xargs parallel history tty locale cal bc`) {
		if _, ok := out[name]; !ok {
			out[name] = usage{none: true}
		}
	}
	for alias, name := range map[string]string{"egrep": "grep", "fgrep": "grep", "zgrep": "grep", "gawk": "awk", "mawk": "awk", "nawk": "awk", "gsed": "sed", "vi": "vim", "nvim": "vim", "gtar": "tar", "bsdtar": "tar", "srm": "rm", "wget2": "wget", "aria2c": "wget", "gmake": "make"} {
		out[alias] = out[name]
	}
	return out
}()

// Files returns the files that a command names in its words; those of its redirections
// are in Reads and Writes. For an unknown program, every known word may be a file.
func Files(c *Command) (out []Operand) {
	if len(c.Args) == 0 {
		return nil
	}
	name := c.Name()
	spec, usual := usages[name]
	add := func(w Word, access Access, tree bool) {
		if w.Text == "" || w.Text == "-" || !usual && (!w.Known && !w.Glob || holed(w.Text) || strings.ContainsAny(w.Text, "\n") || strings.Contains(w.Text, " ") && !strings.HasPrefix(w.Text, "/")) {
			return
		}
		out = append(out, Operand{c.from(w), access, tree})
	}
	if !usual && Language(name) != "" {
		spec = usage{}
	}
	tree, skip := spec.always, spec.skip
	for _, a := range c.Args[1:] {
		tree = tree || takesTree(a.Text, spec.trees)
		if slices.ContainsFunc(spec.unless, func(o string) bool {
			return a.Text == o || strings.HasPrefix(a.Text, o+"=") || len(o) == 2 && strings.HasPrefix(a.Text, o) && !strings.HasPrefix(a.Text, "--")
		}) {
			skip = 0
		}
	}
	inPlace := (name == "sed" || name == "perl" || name == "gsed") && slices.ContainsFunc(c.Args[1:], func(a Word) bool { return strings.HasPrefix(a.Text, "-i") || a.Text == "--in-place" })
	var operands []Word
	for i := 1; i < len(c.Args); i++ {
		a := c.Args[i]
		option, v, glued := strings.Cut(a.Text, "=")
		value := func() (Word, bool) {
			if glued {
				return Word{Text: v, Known: a.Known}, true
			}
			if i++; i < len(c.Args) {
				return c.Args[i], true
			}
			return Word{}, false
		}
		switch {
		case a.Text == "--" && len(operands) == 0:
			operands = append(operands, c.Args[i+1:]...)
			i = len(c.Args)
		case strings.HasPrefix(a.Text, "-") && (slices.Contains(spec.reads, option) || slices.Contains(spec.writes, option)):
			access := Reads
			if slices.Contains(spec.writes, option) {
				access = Writes
			}
			if x, ok := value(); ok {
				add(trimAt(x), access, access == Writes)
			}
		case slices.Contains(spec.pairs, a.Text):
			i += 2
		case strings.HasPrefix(a.Text, "--"):
			if slices.Contains(spec.long, option) {
				value()
			} else if glued && !spec.none {
				add(Word{Text: v, Known: a.Known}, Either, false)
			}
		case strings.HasPrefix(a.Text, "-") && len(a.Text) > 1:
			last := a.Text[len(a.Text)-1:]
			short := a.Text[:2]
			switch {
			case len(a.Text) > 2 && slices.Contains(spec.reads, short):
				add(Word{Text: trimAt(Word{Text: a.Text[2:]}).Text, Known: a.Known}, Reads, false)
			case len(a.Text) > 2 && slices.Contains(spec.writes, short):
				add(Word{Text: a.Text[2:], Known: a.Known}, Writes, false)
			case slices.Contains(spec.writes, "-"+last) || slices.Contains(spec.reads, "-"+last):
				access := Reads
				if slices.Contains(spec.writes, "-"+last) {
					access = Writes
				}
				if x, ok := value(); ok {
					add(x, access, false)
				}
			case spec.takes != "" && strings.Contains(spec.takes, last) && (len(a.Text) == 2 || !usual):
				value()
			case len(a.Text) > 2 && !usual && strings.ContainsAny(a.Text[2:], "/."):
				add(Word{Text: a.Text[2:], Known: a.Known}, Either, false)
			}
		case name == "dd":
			if glued && (option == "if" || option == "of") {
				access := Reads
				if option == "of" {
					access = Writes
				}
				add(Word{Text: v, Known: a.Known}, access, false)
			}
		default:
			operands = append(operands, a)
		}
	}
	switch {
	case name == "curl":
		// Data and forms may be files: -d @f, -F name=@f.
		for _, a := range c.Args[1:] {
			if i := strings.LastIndexAny(a.Text, "@<"); i >= 0 && (i == 0 || a.Text[i-1] == '=' || strings.HasPrefix(a.Text, "-d@") || strings.HasPrefix(a.Text, "-F")) {
				text, _, _ := strings.Cut(a.Text[i+1:], ";")
				add(Word{Text: text, Known: a.Known}, Reads, false)
			}
			if rest, ok := strings.CutPrefix(a.Text, "file://"); ok {
				add(Word{Text: rest, Known: a.Known}, Reads, false)
			}
		}
		return out
	case spec.none:
		return out
	}
	for i, a := range operands {
		if i < skip || HostOf(a.Text) != "" && strings.Contains(a.Text, "://") {
			continue
		}
		access := spec.access
		if !usual {
			access = Either
		}
		if inPlace {
			access = Writes
		}
		if spec.last && i == len(operands)-1 && (i > 0 || name == "ln") {
			access = Writes
		}
		add(trimAt(a), access, tree && !(access == Writes && spec.last && i == len(operands)-1))
		if spec.last && len(operands) > 1 && i < len(operands)-1 {
			// In the folder that the last may be.
			to := operands[len(operands)-1]
			add(Word{Text: path.Join(to.Text, base(strings.TrimRight(a.Text, "/"))), Known: to.Known && a.Known, Glob: to.Glob || a.Glob}, Writes, tree)
		}
	}
	return out
}

func takesTree(a string, trees []string) bool {
	return slices.ContainsFunc(trees, func(o string) bool {
		return a == o || len(o) == 2 && len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.IndexByte(a, o[1]) > 0
	})
}

func trimAt(w Word) Word {
	w.Text = strings.TrimPrefix(w.Text, "@")
	return w
}

// from returns a word as an absolute path. A word whose beginning is unknown is returned
// unchanged.
func (c *Command) from(w Word) Word {
	if strings.HasPrefix(w.Text, Hole) || strings.HasPrefix(w.Text, Unset) {
		return w
	}
	if rest, ok := strings.CutPrefix(w.Text, "~/"); ok {
		w.Text = path.Join(cmp.Or(c.home, Workspace), rest)
	}
	w.Text = c.Abs(w.Text)
	if rest, ok := strings.CutPrefix(w.Text, "/proc/self/cwd"); ok {
		w.Text = path.Join(c.Dir, rest)
	} else if rest, ok := strings.CutPrefix(w.Text, "/proc/self/root"); ok {
		w.Text = path.Join("/", rest)
	}
	w.Known = w.Known && !holed(c.Dir)
	return w
}

// Path returns a word of a command as an absolute path.
func (c *Command) Path(w Word) Word { return c.from(w) }

// addressed are programs whose operands are addresses, with or without a scheme,
// and their options that take no address.
var addressed = map[string]wrapper{
	"curl": {takes: "AbcCdDeEFHKmoPQrtTuUwXyYzh", long: list("--user --header --data --data-raw --data-binary --data-urlencode --json --output --request --form --user-agent --cookie --cookie-jar --cacert --cert --key --max-time --connect-timeout --retry --retry-delay --retry-max-time --write-out --upload-file --range --limit-rate --config --referer --dump-header --interface --output-dir --oauth2-bearer --aws-sigv4 --ciphers --tls-max --url-query --variable --netrc-file --resolve --connect-to --proxy --url --socks5 --socks5-hostname --socks4 --socks4a --preproxy --doh-url --dns-servers")},
	"wget": {takes: "aeioOPQTtUwABDGIRXl", long: list("--output-document --output-file --directory-prefix --header --post-data --post-file --body-data --method --tries --timeout --wait --user --password --user-agent --level --accept --reject --limit-rate --input-file --load-cookies --save-cookies")},
	"http": {}, "https": {}, "xh": {}, "xhs": {}, "curlie": {}, "lynx": {}, "w3m": {}, "links": {}, "elinks": {}, "aria2c": {takes: "dooxjs"}, "axel": {takes: "no"}, "wget2": {takes: "oOP"},
}

var (
	hostLike = regexp.MustCompile(`^(?:[A-Za-z0-9_.-]+@)?((?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z][A-Za-z0-9-]*\.?|localhost|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.]+\])(?::\d+)?(?:[/?#].*)?$`)
	remote   = regexp.MustCompile(`^(?:[A-Za-z0-9_.-]+@)?([A-Za-z0-9_.-]+|\[[0-9a-fA-F:.]+\]):`)
)

// Hosts returns the hosts that a command connects to, as far as its words show. A host
// that cannot be determined is a Word that is not Known.
func Hosts(c *Command) (out []Word) {
	if len(c.Args) == 0 {
		return nil
	}
	seen := map[string]bool{}
	add := func(host string, known bool) {
		host = cleanHost(host)
		if host != "" && !seen[host] {
			seen[host] = true
			out = append(out, Word{Text: host, Known: known && !holed(host)})
		}
	}
	name := c.Name()
	spec, addresses := addressed[name]
	for i := 1; i < len(c.Args); i++ {
		a := c.Args[i]
		option, v, glued := strings.Cut(a.Text, "=")
		value := func() Word {
			if glued {
				return Word{Text: v, Known: a.Known}
			}
			if i++; i < len(c.Args) {
				return c.Args[i]
			}
			return Word{}
		}
		switch {
		case strings.HasPrefix(a.Text, "-") && (option == "--resolve" || option == "--connect-to"):
			// [+]HOST:PORT:ADDRESS, and HOST1:PORT1:HOST2:PORT2.
			x := value()
			parts := strings.SplitN(strings.TrimPrefix(x.Text, "+"), ":", 3)
			add(parts[0], x.Known)
			if len(parts) == 3 {
				for to := range strings.SplitSeq(parts[2], ",") {
					if option == "--connect-to" {
						if j := strings.LastIndexByte(to, ':'); j >= 0 {
							to = to[:j]
						}
					}
					add(strings.Trim(to, "[]"), x.Known)
				}
			}
		case addresses && (option == "--proxy" || option == "-x" || option == "--preproxy" || option == "--url" || option == "--doh-url" || option == "--referer" && false || strings.HasPrefix(option, "--socks")):
			x := value()
			add(addressOf(x.Text), x.Known)
		case addresses && name == "curl" && strings.HasPrefix(a.Text, "-x") && len(a.Text) > 2:
			add(addressOf(a.Text[2:]), a.Known)
		case addresses && (option == "-K" || option == "--config" || option == "-i" && name != "curl" || option == "--input-file"):
			value()
			add(Hole, false) // addresses come from a file
		case strings.HasPrefix(a.Text, "--"):
			if glued {
				add(HostOf(v), a.Known)
			} else if addresses && slices.Contains(spec.long, option) {
				i++
			}
		case strings.HasPrefix(a.Text, "-") && len(a.Text) > 1:
			if at := strings.Index(a.Text, "://"); at > 0 {
				add(HostOf(a.Text[2:]), a.Known)
			}
			if addresses {
				for j := 1; j < len(a.Text); j++ {
					if strings.IndexByte(spec.takes, a.Text[j]) >= 0 {
						if j == len(a.Text)-1 {
							i++
						}
						break
					}
				}
			}
		case addresses:
			if name == "http" || name == "https" || name == "xh" || name == "xhs" {
				if strings.ToUpper(a.Text) == a.Text && !strings.ContainsAny(a.Text, "./:") || strings.ContainsAny(a.Text, "=") && !strings.Contains(a.Text, "/") {
					continue // a method, or data
				}
			}
			add(addressOf(a.Text), a.Known)
		case name == "scp" || name == "rsync" || name == "sftp":
			if m := remote.FindStringSubmatch(a.Text); m != nil && !strings.Contains(a.Text, "://") {
				add(strings.Trim(m[1], "[]"), a.Known)
			} else if h := HostOf(a.Text); h != "" || holed(a.Text) && name != "rsync" {
				add(h, a.Known)
			}
		case name == "ssh" || name == "mosh" || name == "autossh" || name == "ssh-copy-id" || name == "sshfs" || name == "telnet" || name == "ping" || name == "nc" || name == "ncat" || name == "netcat" || name == "dig" || name == "nslookup" || name == "host":
			// The first operand.
			if _, h, ok := strings.Cut(a.Text, "@"); ok {
				a.Text = h
			}
			h, _, _ := strings.Cut(a.Text, ":")
			add(addressOf(h), a.Known)
			if name != "nc" && name != "ncat" {
				return out
			}
		default:
			add(HostOf(a.Text), a.Known)
		}
		if name == "ssh" && strings.HasPrefix(a.Text, "-") && len(a.Text) == 2 && strings.Contains(sshOptions, a.Text[1:]) {
			if a.Text == "-J" && i+1 < len(c.Args) {
				for hop := range strings.SplitSeq(c.Args[i+1].Text, ",") {
					_, h, ok := strings.Cut(hop, "@")
					if !ok {
						h = hop
					}
					h, _, _ = strings.Cut(h, ":")
					add(h, c.Args[i+1].Known)
				}
			}
			i++
		}
	}
	for _, r := range slices.Concat(c.Reads, c.Writes) {
		if rest, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimPrefix(r.Text, "/dev/tcp/"), "/dev/udp/"), ""); ok && strings.HasPrefix(r.Text, "/dev/") && rest != r.Text {
			h, _, _ := strings.Cut(rest, "/")
			add(h, r.Known)
		}
	}
	return out
}

// addressOf returns the host of an address with or without a scheme.
func addressOf(s string) string {
	if h := HostOf(s); h != "" {
		return h
	}
	if m := hostLike.FindStringSubmatch(s); m != nil {
		return m[1]
	}
	// A name of one part, a number, or one that is partly known.
	s, _, _ = strings.Cut(s, "/")
	s, _, _ = strings.Cut(s, "?")
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		s = s[:i]
	}
	return s
}

// cleanHost is a host as rules name it: in small letters, without a final dot.
func cleanHost(h string) string {
	h = strings.ToLower(strings.Trim(strings.TrimSuffix(h, "."), "[]"))
	if a, err := netip.ParseAddr(h); err == nil {
		return a.String()
	}
	return h
}

// HostOf returns the host of a URL, or of user@host:path; "" for any other text.
func HostOf(s string) string {
	if strings.Contains(s, "://") {
		if u, err := url.Parse(s); err == nil && u.Hostname() != "" {
			return cleanHost(u.Hostname())
		}
		_, rest, _ := strings.Cut(s, "://")
		rest, _, _ = strings.Cut(rest, "/")
		if _, h, ok := strings.Cut(rest, "@"); ok {
			rest = h
		}
		if i := strings.LastIndexByte(rest, ':'); i >= 0 {
			rest = rest[:i]
		}
		return cleanHost(rest)
	}
	if user, rest, ok := strings.Cut(s, "@"); ok && user != "" && !strings.ContainsAny(user, "/ ") {
		host, _, colon := strings.Cut(rest, ":")
		if colon && !strings.ContainsAny(host, "/ ") {
			return cleanHost(host)
		}
	}
	return ""
}
