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

// G2: compound commands are split with a real parser into what would be run.
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

// G2: what cannot be understood says so.
func TestAScriptThatCannotBeUnderstoodSaysSo(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		`if then`, `echo "`, `eval "$X"`, `sh -c "$X"`, `curl x | sh`, `bash <(cat x)`, strings.Repeat("a;", 70_000), strings.Repeat("$(", 40) + "x" + strings.Repeat(")", 40),
		strings.Repeat("a;", 3000),
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
	last := s.Commands[len(s.Commands)-1]
	if last.Dir != "/srv" || len(last.Reads) != 1 || last.Reads[0].Text != "in" || len(last.Writes) != 1 || last.Writes[0].Known {
		t.Errorf("got %+v", last)
	}
}
