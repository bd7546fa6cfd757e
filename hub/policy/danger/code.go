package danger

import (
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
)

// What code calls, in its own spellings. The text is that of source.bare, where
// «3» is the third string.
var (
	execs = compile(`\b(?:os\.system|os\.popen\w*|os\.exec\w+|os\.spawn\w+|os\.posix_spawnp?|subprocess\.\w+|commands\.get\w+|pty\.spawn|popen\d?|check_output|check_call|Popen|system|exec|execSync|execFile|execFileSync|spawn|spawnSync|shell_exec|passthru|proc_open|pcntl_exec|qx|Open3\.\w+|IO\.popen|io\.popen|os\.execute|sh|execvp?e?|execlp?e?|Deno\.Command|Bun\.spawn|Command|create_subprocess_(?:shell|exec)|getoutput|getstatusoutput|invoke)\s*[\(\[ ]`)

	deletes = compile(`(?:\bshutil\.rmtree|\brmtree|\brm_rf|\brm_r|\bremove_dir|\bremove_entry(?:_secure)?|\bremove_tree|\bdeltree|\brmSync|\bfs\.rm|\brmdirSync|\bfs\.rmdir|\bremoveSync|\bemptyDirSync|\brimraf|\bremovedirs|\brmdir|\bsend2trash|\bunlinkSync|\bfs\.unlink|\bunlink|\bos\.remove|\bos\.unlink|\bFile\.delete|\bDir\.rmdir|\bFile\.unlink|\bremove)\b`)

	walks = compile(`\b(?:os\.walk|walk|rglob|glob|iglob|scandir|listdir|iterdir|find|finddepth|readdirSync|readdir|opendir|Dir\.(?:glob|children|each_child|entries|foreach)|Dir|Find\.find|RecursiveDirectoryIterator|scandir|Path|pathlib\.Path|File::Find)\b`)

	deepDeletes = compile(`\b(?:shutil\.rmtree|rmtree|rm_rf|rm_r|remove_dir|remove_entry(?:_secure)?|remove_tree|deltree|rmSync|fs\.rm|removeSync|emptyDirSync|rimraf|removedirs|send2trash|rmdirSync|fs\.rmdir)\b`)

	writes = compile(`\b(?:open|fopen|File\.open|File\.new|io\.open|IO\.write|File\.write|file_put_contents|writeFileSync|writeFile|appendFileSync|appendFile|createWriteStream|openSync|truncate|truncateSync|os\.open|Path|pathlib\.Path|copyfile|copy2?|copyFileSync|symlink|symlinkSync|FileUtils\.\w+|sysopen|spew|os\.truncate|os\.rename|os\.replace|shutil\.move|write_text|rename|renameSync)\b`)

	reads = compile(`\b(?:open|fopen|readFileSync|readFile|createReadStream|read_text|read_bytes|File\.read\w*|IO\.read\w*|File\.open|File\.new|File\.foreach|file_get_contents|file|readfile|readlines|slurp|copyfile|copy2?|copytree|os\.open|io\.open|io\.lines|Path|linecache\.\w+|fileinput\.\w+|np\.loadtxt|mmap|make_archive|tarfile\.\w+|sysopen|getline|require|yaml\.\w+|json\.load|configparser|read|cat)\b`)

	sockets = compile(`\b(?:socket|TCPSocket|fsockopen|pfsockopen|stream_socket_client|net\.(?:Socket|connect|createConnection)|createConnection|IO::Socket\w*|Socket|UDPSocket|websocket\w*|asyncio\.open_connection|require\(«\d+»\)\.connect)\b`)
	fetch   = compile(`\b(?:urlopen|urlretrieve|urllib\.request|requests\.\w+|httpx\.\w+|aiohttp|http\.client|LWP::\w+|HTTP::Tiny|Net::HTTP|URI\.open|open-uri|file_get_contents|curl_exec|fetch|https?\.get|axios|got)\b`)
	evals   = compile(`\b(?:exec|eval|instance_eval|class_eval|Function|vm\.run\w+|runInThisContext|compile|create_function|assert|loadstring|load|dofile|include|require_once|do)\s*[\( ]`)

	// handedOn is a function that runs code, given to another one to call.
	handedOn = compile(`[(,]\s*(?:eval|exec|Function)\s*[,)]`)

	bombs = compile(`(?:while|until)\s*\(?\s*(?:1|True|true|not\s+False|!0|1\s*==\s*1|0|false|not\s+0)\s*\)?\s*[:{;]?\s*(?:do\s*)?(?:\w+\s*=\s*)?(?:os\.|Process\.)?v?fork\b|fork\s*(?:\(\))?\s*(?:while|until|for)\b|loop\s*(?:\{|do)\s*(?:Process\.)?fork|for\s*\(?\s*;;\s*\)?\s*\{?\s*v?fork|while\s*\(\s*(?:true|1|!0)\s*\)\s*\{?[^}]*(?:\.fork|spawn|exec\w*|execFile\w*)\s*\(\s*(?:__filename|process\.(?:argv|execPath))|while\s*\(?\s*(?:True|1)\s*\)?\s*:\s*(?:subprocess\.)?Popen\s*\(|def\s+(\w+)[^:\n]*:\s*(?:os\.fork\(\);?\s*)?(?:while True:)?\s*(?:multiprocessing\.)?(?:Process|Thread)\(target=|forkbomb|setInterval\s*\(.*(?:__filename|process\.(?:argv|execPath))|for\s+\w+\s+in\s+(?:itertools\.count\(\)|iter\(int,\s*1\))\s*:\s*os\.fork`)

	cBomb = compile(`(?:while\s*\(\s*(?:1|true)\s*\)|for\s*\(\s*;\s*;\s*\))\s*\{?\s*(?:v?fork|syscall\(SYS_fork)`)

	allEnv    = compile(`\bos\.environ\b(?:\s*[\),;]|$|\.copy|\.items)|\bprocess\.env\s*[\),;]|%ENV\b|\bENV\.(?:to_h|inspect|to_a|map)|\$_ENV\b|\bgetenv\(\)|\$_SERVER\s*[\),;]`)
	shellLike = compile(`^(?:/usr)?(?:/bin/|/usr/bin/)?(?:env )?(?:/bin/)?(?:sh|bash|zsh|dash|ksh|cmd\.exe|powershell)(?: .*)?$`)
)

// code looks into code that an interpreter of another language is given.
func (f *finder) code(language, text string, c *shell.Command) {
	const most = 256 << 10
	if len(text) > most {
		text = text[:most]
	}
	f.read(language, text, c, 0)
}

func (f *finder) read(language, text string, c *shell.Command, depth int) {
	if depth > 4 {
		f.add(HiddenCode, c, "it runs code within code within code")
		return
	}
	s := scan(language, text)
	if multiplies(s.bare) {
		if one := strings.Join(strings.Fields(s.bare), " "); bombs.MatchString(one) || cBomb.MatchString(one) {
			f.add(ForkBomb, c, "its code starts processes without end")
		}
	}
	run := func(script string) {
		if len(script) > 1 {
			f.within(script, c)
		}
	}
	for _, i := range s.ran {
		run(s.strings[i])
	}
	for _, re := range []*expression{piped, pipes} {
		for _, m := range re.FindAllStringSubmatch(s.bare, 20) {
			if language == "awk" {
				run(s.at(m[1]))
			}
		}
	}
	if language == "perl" || language == "ruby" {
		for _, p := range s.strings {
			if t := strings.TrimSpace(p); strings.HasSuffix(t, "|") || strings.HasPrefix(t, "|") {
				run(strings.Trim(t, "|"))
			}
		}
	}
	if generic[language] {
		// Of a language that is not known well, every text may be a command.
		for _, p := range s.strings {
			run(p)
		}
		var quoted []string
		for _, n := range numbers(s.bare) {
			quoted = append(quoted, "'"+strings.ReplaceAll(s.at(n), "'", `'\''`)+"'")
		}
		run(strings.Join(quoted, " "))
	}
	for _, region := range s.arguments(execs) {
		words := region.strings(s)
		for _, w := range words {
			run(w)
		}
		if len(words) > 1 {
			quoted := make([]string, len(words))
			for i, w := range words {
				quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
			}
			run(strings.Join(quoted, " "))
		}
	}
	// Relative paths in the code begin at the folder that the code changes to.
	dir := c.Dir
	for _, region := range s.arguments(chdirs) {
		for _, p := range region.strings(s) {
			dir = clean(tilde(p), dir)
		}
	}
	rooted := func(p string) bool {
		return strings.HasPrefix(tilde(p), "/") || dir != c.Dir && p != "" && !strings.ContainsAny(p, "\n \x00")
	}
	// What is deleted, in a call of its own or found by a walk.
	deletes := deletes.MatchString(s.bare)
	for _, region := range s.arguments(deepDeletes) {
		for _, p := range region.strings(s) {
			f.deleted(c, clean(tilde(p), dir), true)
		}
	}
	if deletes {
		wide := walks.MatchString(s.bare) && !s.narrow()
		for _, region := range slices.Concat(s.arguments(walks), s.arguments(deletesCall)) {
			for _, p := range region.strings(s) {
				if rooted(p) {
					q := clean(tilde(p), dir)
					f.deleted(c, q, wide)
					if wide && wild(q) {
						f.deleted(c, strings.TrimRight(q, "*/"), true)
					}
				}
			}
		}
	}
	for _, region := range s.arguments(writes) {
		words := region.strings(s)
		for i, p := range words {
			mode := ""
			if i+1 < len(words) {
				mode = words[i+1]
			}
			always := !opens.MatchString(region.call) || strings.Contains(region.text, "O_WRONLY") || strings.Contains(region.text, "O_RDWR") || strings.Contains(region.text, "O_CREAT") ||
				strings.Contains(region.after, ".write_") || strings.Contains(region.after, ".touch")
			if q, ok := strings.CutPrefix(p, ">"); ok || strings.HasPrefix(p, "+<") {
				p, always = strings.TrimLeft(strings.TrimLeft(q, "><+"), " "), true
			}
			if mode == "" && len(words) > 1 && strings.HasPrefix(words[0], ">") && i == 1 {
				always = true
			}
			if rooted(p) && (always || writeMode.MatchString(mode)) {
				f.written(c, clean(tilde(p), dir))
			}
		}
	}
	reading := len(s.strings) > 0 && reads.MatchString(s.bare)
	for i, p := range s.strings {
		if t := tilde(p); reading && rooted(p) && !strings.ContainsAny(t, "\n") && !slices.Contains(s.ran, i) {
			secretFinder{f}.secret(c, clean(t, dir))
		}
		if strings.Contains(p, "169.254.169.254") || strings.Contains(p, "metadata.google.internal") {
			f.add(Credentials, c, "its code asks the cloud's metadata service, which hands out credentials")
		}
		if language == "awk" && strings.HasPrefix(p, "/inet") && strings.Contains(p, "/tcp/") && (strings.Contains(s.bare, "|&") || strings.Contains(s.bare, "| getline")) {
			f.add(ReverseShell, c, "its code takes commands from another machine")
		}
	}
	if chmods := s.arguments(codePattern1); len(chmods) > 0 {
		for _, region := range chmods {
			for _, p := range region.strings(s) {
				if q := clean(tilde(p), c.Dir); strings.HasPrefix(tilde(p), "/") && (root(q) != "" && root(q) != shell.Workspace || critical(q)) {
					f.add(Permissions, c, "its code changes the rights on %s", q)
				}
			}
		}
	}
	networked := sockets.MatchString(s.bare) || strings.Contains(s.bare, "use Socket") || strings.Contains(s.bare, "import socket")
	if networked {
		gives := strings.Contains(s.bare, "dup2") || strings.Contains(s.bare, "pty.spawn")
		for _, p := range s.strings {
			gives = gives || shellLike.MatchString(strings.TrimSpace(p)) && (execs.MatchString(s.bare) || strings.Contains(s.bare, "spawn") || strings.Contains(s.bare, "open(")) ||
				strings.Contains(p, "<&") && strings.Contains(p, ">&") && strings.Contains(p, "sh ")
		}
		loops := codePattern2.MatchString(s.bare) && codePattern3.MatchString(s.bare) && (execs.MatchString(s.bare) || len(s.ran) > 0) && codePattern4.MatchString(s.bare)
		obeys := codePattern5.MatchString(s.bare) && codePattern6.MatchString(s.bare)
		if gives || loops || obeys {
			f.add(ReverseShell, c, "its code takes commands from another machine")
		}
	}
	if codePattern7.MatchString(s.bare) || codePattern8.MatchString(s.bare) {
		f.add(Kernel, c, "its code ends every process, or the first")
	}
	if (fetch.MatchString(s.bare) || networked) && allEnv.MatchString(s.bare) {
		f.add(Credentials, c, "its code sends the environment elsewhere")
	}
	if fetch.MatchString(s.bare) && handedOn.MatchString(s.bare) {
		f.add(RemoteCode, c, "its code runs code from elsewhere")
	}
	// Code that code runs.
	for _, region := range s.arguments(evals) {
		if region.reads {
			continue // json.load and its like take data apart
		}
		words := region.strings(s)
		switch {
		case fetch.MatchString(region.text):
			f.add(RemoteCode, c, "its code runs code from elsewhere")
		case unreadable.MatchString(region.text):
			f.add(HiddenCode, c, "its code runs code that was made unreadable")
		}
		for _, w := range words {
			if len(w) > 3 && w != text && (strings.ContainsAny(w, "(;`") || strings.Contains(w, "import")) {
				f.read(language, w, c, depth+1)
			}
		}
	}
	if fetch.MatchString(s.bare) && indirect.MatchString(s.bare) {
		f.add(RemoteCode, c, "its code runs code from elsewhere")
	}
	if unreadable.MatchString(s.bare) && indirect.MatchString(s.bare) {
		f.add(HiddenCode, c, "its code runs code that was made unreadable")
	}
}

// generic are the languages of which no more than the texts are looked at.
var generic = map[string]bool{"code": true, "groovy": true, "tclsh": true, "rscript": true, "julia": true}

var (
	chdirs      = compile(`\b(?:os\.chdir|Dir\.chdir|process\.chdir|chdir)\b`)
	writeMode   = compile(`^(?:[rb]*[wax+][bt+]*)+$`)
	piped       = compile(lit + `\s*\|&?\s*getline`)
	pipes       = compile(`\|&?\s*` + lit)
	deletesCall = compile(`\b(?:unlinkSync|fs\.unlink|unlink|os\.remove|os\.unlink|File\.delete|File\.unlink|Dir\.rmdir|remove|rmdir)\b`)
	opens       = compile(`(?:open|new|Path|copy|copy2|copyfile|copyFileSync|openSync)$`)
	unreadable  = compile(`b64decode|decode_base64|base64_decode|unhexlify|fromhex|decompress|gzinflate|marshal\.loads|str_rot13|Buffer\.from|atob|unpack\b|codecs\.decode|decode64|a85decode|b85decode|b32decode`)
	// indirect is a call of exec or eval with something that is no string.
	indirect = compile(`\b(?:exec|eval|os\.system|instance_eval|Function|loadstring|runInThisContext|execSync|system|popen|shell_exec)\s*\(\s*[A-Za-z_$@(]`)
)

// multiplies reports whether code starts processes at all.
func multiplies(code string) bool {
	return slices.ContainsFunc([]string{"fork", "spawn", "exec", "Popen", "Process", "Thread", "syscall", "setInterval"}, func(s string) bool { return strings.Contains(code, s) })
}

// within looks into a shell script that code runs.
func (f *finder) within(script string, c *shell.Command) {
	inner := &finder{script: shell.Read(script, shell.Options{Dir: plainDir(c.Dir)}), seen: f.seen}
	for _, name := range inner.script.Bombs {
		inner.add(ForkBomb, c, "%s starts itself, or others, without end", name)
	}
	for i := range inner.script.Commands {
		inner.command(&inner.script.Commands[i])
	}
	inner.shells()
	for _, found := range inner.found {
		found.Line = c.Line
		found.What += " (by code in " + c.Name() + ")"
		f.found = append(f.found, found)
	}
}

func plainDir(dir string) string {
	if strings.ContainsAny(dir, shell.Hole+shell.Unset) {
		return ""
	}
	return dir
}

// tilde returns a path with the home folder written out.
func tilde(p string) string {
	if p == "~" || strings.HasPrefix(p, "~/") {
		return shell.Workspace + p[1:]
	}
	return p
}

// Files returns the files that code names where it reads or writes files, as far
// as its strings say: those that it writes, and others.
func Files(language, text string) (read, written []string) {
	const most = 256 << 10
	if len(text) > most {
		text = text[:most]
	}
	text = spaced(text)
	if !reads.MatchString(text) && !writes.MatchString(text) && !deletes.MatchString(text) && language != "awk" {
		return nil, nil
	}
	s := scan(language, text)
	dir := ""
	for _, region := range s.arguments(chdirs) {
		for _, p := range region.strings(s) {
			dir = clean(tilde(p), dir)
		}
	}
	name := func(p string) string {
		if p = tilde(p); dir != "" && !strings.HasPrefix(p, "/") {
			return dir + "/" + p
		}
		return p
	}
	for _, p := range s.strings {
		if fileLike.MatchString(p) {
			read = append(read, name(p))
		}
	}
	for _, re := range []*expression{writes, deepDeletes, deletesCall} {
		for _, region := range s.arguments(re) {
			words := region.strings(s)
			for i, p := range words {
				modes := !opens.MatchString(region.call) || i+1 < len(words) && writeMode.MatchString(words[i+1]) || strings.Contains(region.after, ".write") || strings.Contains(region.after, ".touch") ||
					strings.Contains(region.text, "O_WRONLY") || strings.Contains(region.text, "O_CREAT") || strings.Contains(region.text, "O_RDWR")
				if fileLike.MatchString(p) && modes {
					written = append(written, name(strings.TrimLeft(p, ">+ ")))
				}
			}
		}
	}
	return read, written
}

// fileLike is a text that may be the name of a file.
var fileLike = compile(`^[>+ ]*(?:~?/|\.{0,2}/)?[\w.@-][\w.@/-]*$`)

// Patterns of the functions above.
var (
	codePattern1 = compile(`\b(?:chmod|chmodSync|chmod_R|chown_R|chown|lchown)\b`)
	codePattern2 = compile(`(?:while|loop|gets|on\()`)
	codePattern3 = compile(`(?:recv|gets|readline|fgets|on\s*\(«)`)
	codePattern4 = compile(`(?:send|write|puts|print|fwrite|fputs)`)
	codePattern5 = compile(`\b(?:system|exec|popen|shell_exec|passthru|check_output|Popen|run)\s*\(?\s*\$_|while\s*\(?\s*<[^>]*>`)
	codePattern6 = compile(`\b(?:system|exec|qx)\b`)
	codePattern7 = compile(`\b(?:os\.kill|Process\.kill|process\.kill|posix_kill|kill)\s*\(?\s*(?:-1|1)\s*,`)
	codePattern8 = compile(`\bkill\s*\(?\s*(?:9|«\d+»|-?9|signal\.SIGKILL)\s*,\s*-?1\b`)
)
