package policy_test

import (
	"testing"

	"github.com/deckhand-sh/deckhand/hub/policy"
)

// program is a command line by whether it only reads data.
var program = map[bool]string{false: "bash", true: "sort"}

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
		return policy.Call{Tool: "job_input", Category: "moderate", Arguments: map[string]any{"job": "job_1", "text": text}, Program: program[readsData]}
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

// A line that is typed into a terminal is decided as a whole when a key ends it, however many
// calls typed it. What a key that edits the line made of it is not known.
func TestATypedLineIsDecidedAtItsEnd(t *testing.T) {
	t.Parallel()
	set := parse(t, `
rules:
  - {name: push, effect: deny, command: git push}
`)
	for name, c := range map[string]struct {
		line, text string
		keys       []any
		readsData  bool
		want       policy.Effect
	}{
		"a line":                          {text: "git push", keys: []any{"enter"}, want: policy.Deny},
		"with another key for its end":    {text: "git push", keys: []any{"ctrl-m"}, want: policy.Deny},
		"a line in the text":              {text: "git push\n", want: policy.Deny},
		"one of several":                  {text: "ls\ngit push\n", want: policy.Deny},
		"no end yet":                      {text: "git push", want: policy.None},
		"the rest of a line":              {line: "git pu", text: "sh", keys: []any{"enter"}, want: policy.Deny},
		"only its end":                    {line: "git push", keys: []any{"enter"}, want: policy.Deny},
		"an edited line":                  {line: policy.Typed(map[string]any{"keys": []any{"up"}}), keys: []any{"enter"}, want: policy.Ask},
		"a completed word":                {text: "cat no\t\n", want: policy.Ask},
		"after a program was stopped":     {line: policy.Unfinished(policy.Typed(map[string]any{"keys": []any{"ctrl-c"}})), text: "ls", keys: []any{"enter"}, want: policy.None},
		"after a line was given up":       {line: policy.Typed(map[string]any{"text": "git", "keys": []any{"ctrl-c"}}), text: "ls", keys: []any{"enter"}, want: policy.Ask},
		"what is dangerous":               {text: "rm -rf /", keys: []any{"enter"}, want: policy.Ask},
		"a program that only reads data":  {text: "git push", keys: []any{"enter"}, readsData: true, want: policy.None},
		"keys that send nothing":          {keys: []any{"down", "down"}, want: policy.None},
		"a line that goes on in the next": {text: "git \\", keys: []any{"enter"}, want: policy.Ask},
	} {
		arguments := map[string]any{"job": "job_1"}
		if c.text != "" {
			arguments["text"] = c.text
		}
		if c.keys != nil {
			arguments["keys"] = c.keys
		}
		call := policy.Call{Tool: "terminal_write", Category: "moderate", Arguments: arguments, Line: c.line, Program: program[c.readsData]}
		if got := set.Decide(call); got.Effect != c.want {
			t.Errorf("%s: got %+v, want %q", name, got, c.want)
		}
	}
	open := policy.Call{Tool: "terminal_open", Category: "moderate", Arguments: map[string]any{"command": "git push"}}
	if got := set.Decide(open); got.Effect != policy.Deny {
		t.Errorf("a program that is started on a terminal: got %+v", got)
	}
}

// A patch is decided as the calls that it stands for.
func TestAPatchIsDecidedAsItsParts(t *testing.T) {
	t.Parallel()
	set := parse(t, `
rules:
  - {name: secrets, effect: deny, tool: file_write, path: "/workspace/secrets/**"}
  - {name: deletions, effect: ask, tool: file_delete}
  - {name: moves, effect: deny, tool: file_move, path: "/workspace/moved/**"}
  - {name: patches, effect: allow, tool: apply_patch}
`)
	for body, want := range map[string]policy.Effect{
		"*** Update File: a\n@@\n-x\n+y":                                 policy.None,
		"*** Add File: secrets/a\n+x":                                    policy.Deny,
		"*** Update File: a\n@@\n-x\n+y\n*** Delete File: b":             policy.Ask,
		"*** Update File: a\n*** Move to: moved/a\n@@\n-x\n+y":           policy.Deny,
		"*** Delete File: b\n*** Add File: secrets/../secrets/deep/a\n+": policy.Deny,
	} {
		call := policy.Call{Tool: "apply_patch", Category: "moderate", Arguments: map[string]any{"input": "*** Begin Patch\n" + body + "\n*** End Patch"}}
		if got := set.Decide(call); got.Effect != want {
			t.Errorf("%s: got %+v, want %q", body, got, want)
		}
	}
	made := policy.Call{Tool: "apply_patch", Arguments: map[string]any{"input": "*** Begin Patch\n*** Add File: run.sh\n+git push\n*** Update File: run.sh\n@@\n-git push\n+git push --force\n*** End Patch"}}.After()
	run := policy.Call{Tool: "shell_exec", Arguments: map[string]any{"command": "sh run.sh"}, Written: made}
	if read := set.Read(run); len(read.Commands) != 2 || read.Commands[1].Text != "git push --force" {
		t.Errorf("what it writes is not known: %+v", read)
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
