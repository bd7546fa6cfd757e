package policy_test

import (
	"testing"

	"github.com/deckhand-sh/deckhand/hub/policy"
)

// What is typed into a program is decided like a script that is run, and by rules about
// typing: the stricter decision holds. For a program that only reads data the text is data.
func TestTypedTextIsDecidedAsAScript(t *testing.T) {
	t.Parallel()
	set := parse(t, `
rules:
  - {name: push, effect: deny, command: git push}
  - {name: typing, effect: allow, tool: job_input}
`)
	typed := func(text string, readsData bool) policy.Call {
		return policy.Call{Tool: "job_input", Category: "moderate", Arguments: map[string]any{"job": "job_1", "text": text}, ReadsData: readsData}
	}
	for name, c := range map[string]struct {
		call policy.Call
		want policy.Effect
	}{
		"an answer":                          {typed("yes", false), policy.None},
		"what a rule denies":                 {typed("cd x && git push", false), policy.Deny},
		"what is dangerous":                  {typed("rm -rf /", false), policy.Ask},
		"the first half of what is":          {typed(`rm -rf \`, false), policy.Ask},
		"the same as data":                   {typed("git push; rm -rf /", true), policy.Allow},
		"the end of the input":               {policy.Call{Tool: "job_input", Arguments: map[string]any{"job": "job_1", "end": true}}, policy.Allow},
		"a text that another tool is called": {policy.Call{Tool: "ask_person", Arguments: map[string]any{"text": "rm -rf /"}}, policy.None},
	} {
		if got := set.Decide(c.call); got.Effect != c.want {
			t.Errorf("%s: got %+v, want %q", name, got, c.want)
		}
	}
	if read := set.Read(typed("git push; ls", false)); len(read.Commands) != 2 || read.Commands[0].Effect != policy.Deny {
		t.Errorf("a person is shown %+v", read)
	}
}

func TestProgramsThatOnlyReadData(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]bool{
		"cat": true, "grep -c x | sort": true, "jq . > /dev/null": true, "cd x; cat": false, "cat > run.sh": false, "cat | sh": false,
		"sed -n p": false, "awk 1": false, "tee a": false, "python3 -i": false, "psql": false, "bash": false, "xargs -n1 cat": false,
		"./cat": false, "LD_PRELOAD=./x.so cat": false, "ssh host cat": false, "$PROGRAM": false, "": false, "cat |": false, "/usr/bin/cat": true,
		"cat; eval x": false, "function cat { sh; }; cat": false, "alias cat=sh; cat": false,
	} {
		if got := policy.ReadsData(script); got != want {
			t.Errorf("%s: got %v", script, got)
		}
	}
}
