package shell_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
)

func commands(s shell.Script) (out []string) {
	for _, c := range s.Commands {
		out = append(out, c.String())
	}
	return out
}

// Compound commands are split with a real parser into what would be run.
func TestAScriptIsSplitIntoTheCommandsThatItWouldRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"lists and pipes":         {`a 1 && b 2 || c; d | e &`, []string{"a 1", "b 2", "c", "d", "e"}},
		"substitutions":           {`echo "$(git rev-parse HEAD)" <(sort x)`, []string{"git rev-parse HEAD", "sort x"}},
		"quotes and escapes":      {`g\it "pu"sh 'origin'`, []string{"git push origin"}},
		"variables that are set":  {`x=push; git $x`, []string{"git push"}},
		"IFS":                     {`git${IFS}push`, []string{"git push"}},
		"braces":                  {`{git,push,origin}`, []string{"git push origin"}},
		"sh -c":                   {`sh -c 'git push'`, []string{"git push"}},
		"env, sudo, timeout":      {`sudo -u me env A=1 timeout -k 1 5 nohup git push`, []string{"git push"}},
		"xargs":                   {`echo origin | xargs git push`, []string{"git push origin"}},
		"find -exec":              {`find src -name x -exec git add {} \;`, []string{"git add src/?"}},
		"ssh":                     {`ssh -p 2 me@host 'git push'`, []string{"git push"}},
		"eval":                    {`eval "git push"`, []string{"git push"}},
		"functions":               {`p() { git push "$1"; }; p origin`, []string{"git push origin"}},
		"here-documents":          {"bash <<E\ngit push\nE", []string{"git push"}},
		"scripts that it writes":  {`echo git push > a.sh; sh a.sh`, []string{"git push"}},
		"base64":                  {`echo Z2l0IHB1c2g= | base64 -d | sh`, []string{"git push"}},
		"both branches":           {`if x; then git push; else git pull; fi`, []string{"git push", "git pull"}},
		"loops over words":        {`for r in a b; do git push $r; done`, []string{"git push a", "git push b"}},
		"an unknown command":      {`$CMD push`, []string{"? push"}},
		"wildcards in its place":  {`/usr/bin/r? x`, []string{"/usr/bin/rm x"}},
		"env -S":                  {`env -S 'git push'`, []string{"git push"}},
		"a command of git's":      {`git -c alias.x='!git push' x`, []string{"git push"}},
		"options with a word":     {`xargs --max-args 1 git push < /dev/null`, []string{"git push ?"}},
		"options nobody knows":    {`timeout --what 3 5 git push`, []string{"git push"}},
		"a folder of env's":       {`env -C / rm -rf etc`, []string{"rm -rf etc"}},
		"subcommands":             {`docker --context c compose -f a.yml exec -T web git push`, []string{"git push"}},
		"an entry point":          {`docker run --rm --entrypoint git img push`, []string{"git push"}},
		"uv":                      {`uv run --with x git push`, []string{"git push"}},
		"descriptors":             {`exec 9<<< 'git push'; bash <&9`, []string{"git push"}},
		"output to a command":     {`echo git push > >(sh)`, []string{"git push"}},
		"a trace":                 {`PS4='$(git push)'; set -x`, []string{"git push"}},
		"a subscript":             {`x='a[$(git push)]'; (( x ))`, []string{"git push"}},
		"a reference":             {`declare -n r=c; r='git push'; $c`, []string{"git push"}},
		"words of read":           {`IFS=: read -r a b <<< git:push; $a $b`, []string{"git push"}},
		"a makefile":              {`printf 'x:\n\tgit push\n' | make -f -`, []string{"git push"}},
		"an alias of git's":       {`git config alias.p push; git p`, []string{"git push"}},
		"a linked program":        {`ln -s /usr/bin/git g; ./g push`, []string{"/usr/bin/git push"}},
		"a program by PATH":       {`echo git push > b/ls; PATH=$PWD/b:$PATH; ls`, []string{"git push"}},
		"lines that are read":     {`printf 'push\npull\n' | while read -r v; do git $v; done`, []string{"git push", "git pull"}},
		"arithmetic substitution": {`(( $(git push) ))`, []string{"git push"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := commands(shell.Read(c.script, shell.Options{}))
			for _, want := range c.want {
				if !slices.Contains(got, want) {
					t.Errorf("%s: got %q, want %q among it", c.script, got, want)
				}
			}
		})
	}
}

// What cannot be understood says so.
func TestAScriptThatCannotBeUnderstoodSaysSo(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		`if then`, `echo "`, `eval "$X"`, `sh -c "$X"`, `curl x | sh`, `bash <(cat x)`, strings.Repeat("a;", 70_000), strings.Repeat("$(", 40) + "x" + strings.Repeat(")", 40),
		strings.Repeat("a;", 3000), `sh -c "$(echo ` + strings.Repeat("a", 999) + ` | sed 's/a/` + strings.Repeat("&", 999) + `/g')"`, `sh -c "$(echo a | sed 's/(a{900}){900}/b/')"`,
	} {
		if s := shell.Read(script, shell.Options{}); len(s.Unclear) == 0 {
			t.Errorf("%.60q is clear", script)
		}
	}
	for _, script := range []string{`git push && make`, `for i in 1 2; do echo $i; done`, `ls $UNKNOWN`} {
		if s := shell.Read(script, shell.Options{}); len(s.Unclear) > 0 {
			t.Errorf("%q is unclear: %v", script, s.Unclear)
		}
	}
}

func TestRedirectionsAreFilesThatAreReadAndWritten(t *testing.T) {
	t.Parallel()
	s := shell.Read(`cd /srv; { a; b < in; } > "out$X" 2>&1`, shell.Options{})
	n := len(s.Commands)
	if reads := s.Commands[n-2]; reads.Dir != "/srv" || len(reads.Reads) != 1 || reads.Reads[0].Text != "in" || len(reads.Writes) != 0 {
		t.Errorf("got %+v", reads)
	}
	if block := s.Commands[n-1]; block.Arg(0) != ":" || len(block.Writes) != 1 || block.Writes[0].Known {
		t.Errorf("a block's redirections are its own: got %+v", block)
	}
}

// The words of common programs are classified correctly.
func TestTheFilesAndHostsOfACommandAreKnownByItsWords(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		`dd if=a of=b`:                                      "r/workspace/a w/workspace/b",
		`curl -d @a -o b -F f=@c x.test/p`:                  "w/workspace/b r/workspace/a r/workspace/c @x.test",
		`curl -xhttp://p.test:1 -obin https://x.test`:       "w/workspace/bin @p.test @x.test",
		`cp -r a b .github`:                                 "r/workspace/a w/workspace/.github/a r/workspace/b w/workspace/.github/b w/workspace/.github",
		`grep -rn word /srv`:                                "r/srv",
		`sed -i s/a/b/ x`:                                   "w/workspace/x",
		`kill 12; echo .env`:                                "",
		`cd /etc; cat hosts`:                                "r/etc/hosts",
		`ln -s /etc e; cat e/hosts`:                         "w/workspace/e/etc w/workspace/e r/etc/hosts",
		`scp a me@x.test: `:                                 "@x.test",
		`ssh -p 22 -J j.test me@X.test. ls`:                 "@j.test @x.test",
		`curl --resolve a.test:443:10.0.0.1 https://a.test`: "@a.test @10.0.0.1",
		`wget -q x.test/a`:                                  "@x.test",
		`tar -C d -xf a.tar`:                                "w/workspace/d e/workspace/a.tar",
	} {
		var got []string
		read := shell.Read(script, shell.Options{})
		for i := range read.Commands {
			c := &read.Commands[i]
			for _, f := range shell.Files(c) {
				if c.Name() == "ln" && f.Access != shell.Writes || c.Name() == "scp" {
					continue
				}
				got = append(got, map[shell.Access]string{shell.Reads: "r", shell.Writes: "w", shell.Either: "e"}[f.Access]+f.Text)
			}
			for _, h := range shell.Hosts(c) {
				got = append(got, "@"+h.Text)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s:\ngot  %s\nwant %s", script, text, want)
		}
	}
}

func TestPatternsAreThoseOfBash(t *testing.T) {
	t.Parallel()
	for pattern, names := range map[string][2]string{
		"/[!0-9]*": {"/etc", "/9x"}, "/@(etc|usr)": {"/usr", "/var"}, "/e[[:alpha:]]c": {"/etc", "/e1c"}, "/!(proc)": {"/etc", "/etc/x"}, "/et?": {"/etc", "/et/"},
	} {
		if !shell.Matches(pattern, names[0]) || shell.Matches(pattern, names[1]) {
			t.Errorf("%s: got %t for %s and %t for %s", pattern, shell.Matches(pattern, names[0]), names[0], shell.Matches(pattern, names[1]), names[1])
		}
	}
}

// What one script has written is known to the next.
func TestARecordGoesFromScriptToScript(t *testing.T) {
	t.Parallel()
	one := shell.Read("echo git push > a; mv a b; ln -s b c; curl -so d x.test", shell.Options{}).After
	if f, ok := one.Get("/workspace/d"); !ok || f.Known || f.Made[0].Name() != "curl" {
		t.Errorf("a download: got %+v", f)
	}
	two := shell.Read("sh c", shell.Options{Before: one.Moved("/workspace/b", "/workspace/b").With("/workspace/e", "x")})
	if !slices.Contains(commands(two), "git push") || two.After.Len() < 3 {
		t.Errorf("got %q", commands(two))
	}
	if three := shell.Read("sh d", shell.Options{Before: one}); len(three.Opaque) == 0 || len(three.Earlier) == 0 {
		t.Errorf("a download that is run: got %+v", three)
	}
}
