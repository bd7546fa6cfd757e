package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/policy/shell"
)

func parse(t *testing.T, text string) policy.Set {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return policy.Set{{Name: "organisation 1", Policy: p}}
}

func shellCall(command string) policy.Call {
	return policy.Call{Tool: "shell_exec", Category: "moderate", Arguments: map[string]any{"command": command}, Agent: "cleaner", At: time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC)}
}

const rules = `
rules:
  - {name: push, effect: deny, tool: shell_exec, command: git push, match: [git push, git -C x push --force, "x=push; git $x", sudo git push], not_match: [git pull, echo git push]}
  - {name: prod, effect: ask, command: [make, kubectl], node: {env: prod}}
  - {name: read, effect: allow, command: [git status, git log, ls, cat], match: [git status, "ls -l | cat"], not_match: [git commit, "ls > /etc/x", "A=1 ls"]}
  - {name: etc, effect: deny, path: /etc/**}
  - {name: docs, effect: allow, tool: [file_write, file_append], path: /workspace/docs/**}
  - {name: hosts, effect: deny, host: ["*.evil.test", evil.test]}
  - {name: night, effect: deny, command: deploy, time: {from: "22:00", to: "06:00", zone: Europe/Berlin, days: mon-fri}}
  - {name: other agent, effect: deny, tool: shell_exec, agent: "db-*"}
  - {name: branch, effect: ask, tool: merge, args: {branch: "release/**"}}
`

// Deny beats ask beats allow; the strictest part of a script wins; what
// cannot be known asks.
func TestRulesDecideCalls(t *testing.T) {
	t.Parallel()
	set := parse(t, rules)
	for name, c := range map[string]struct {
		call policy.Call
		want policy.Effect
		rule string
	}{
		"an allowed command":                       {shellCall("git status"), policy.Allow, "read"},
		"one that no rule is about":                {shellCall("make"), policy.None, ""},
		"a denied command":                         {shellCall("git push origin main"), policy.Deny, "push"},
		"with options between":                     {shellCall("git -C /x --no-pager push"), policy.Deny, "push"},
		"within sh -c":                             {shellCall(`sh -c "git push"`), policy.Deny, "push"},
		"as the strictest part of a pipe":          {shellCall("git status | tee x; git push"), policy.Deny, "push"},
		"in a substitution":                        {shellCall("ls $(git push)"), policy.Deny, "push"},
		"encoded":                                  {shellCall("echo Z2l0IHB1c2g= | base64 -d | sh"), policy.Deny, "push"},
		"by its full path":                         {shellCall("/usr/bin/git push"), policy.Deny, "push"},
		"that may be denied":                       {shellCall("V=$(awk 1 x); git $V"), policy.Ask, "push"},
		"an unknown command":                       {shellCall("$(awk 1 x) push"), policy.Ask, "push"},
		"no valid shell":                           {shellCall("ls; if"), policy.Ask, ""},
		"all parts allowed":                        {shellCall("cd /workspace && git log | cat"), policy.Allow, "read"},
		"one part not":                             {shellCall("git log | tee x"), policy.None, ""},
		"allowed, writing in the workspace":        {shellCall("git log > log.txt"), policy.Allow, "read"},
		"allowed, writing elsewhere":               {shellCall("git log > /srv/x"), policy.None, ""},
		"allowed with a variable before it":        {shellCall("GIT_PAGER=sh git log"), policy.None, ""},
		"allowed on another machine":               {shellCall("ssh host git status"), policy.None, ""},
		"allowed behind a timeout":                 {shellCall("timeout 5 git status"), policy.Allow, "read"},
		"allowed behind sudo":                      {shellCall("sudo git status"), policy.None, ""},
		"a path that is denied":                    {shellCall("cat /etc//hostname"), policy.Deny, "etc"},
		"a path by way of ..":                      {shellCall("cat ../etc/hostname"), policy.Deny, "etc"},
		"a redirection to a denied path":           {shellCall("ls >> /etc/motd"), policy.Deny, "etc"},
		"a path from a folder":                     {shellCall("cd /etc; cat hostname"), policy.Deny, "etc"},
		"a path that cannot be known":              {shellCall(`cat "$(awk 1 x)"`), policy.Ask, "etc"},
		"a path of the environment's":              {shellCall(`cat "$X"`), policy.Allow, "read"},
		"a host":                                   {shellCall("curl https://a.evil.test/x"), policy.Deny, "hosts"},
		"a host of ssh":                            {shellCall("ssh me@evil.test ls"), policy.Deny, "hosts"},
		"a file that may be written":               {policy.Call{Tool: "file_write", Arguments: map[string]any{"path": "docs/a.md"}}, policy.Allow, "docs"},
		"a file that may not":                      {policy.Call{Tool: "file_write", Arguments: map[string]any{"path": "docs/../../etc/a"}}, policy.Deny, "etc"},
		"an argument":                              {policy.Call{Tool: "merge", Arguments: map[string]any{"branch": "release/1/2"}}, policy.Ask, "branch"},
		"another argument":                         {policy.Call{Tool: "merge", Arguments: map[string]any{"branch": "main"}}, policy.None, ""},
		"what is dangerous asks though it is free": {shellCall("cat ~/.ssh/id_rsa"), policy.Ask, "dangerous:credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := set.Decide(c.call); got.Effect != c.want || c.rule != "" && got.Rule != c.rule {
				t.Errorf("%v: got %+v, want %q by %q", c.call.Arguments, got, c.want, c.rule)
			}
		})
	}
}

// Approving takes a passkey if any rule that asks takes one, whichever rule is named, and
// if such a rule may be about what cannot be read.
func TestARuleTakesAPasskeyForApprovals(t *testing.T) {
	t.Parallel()
	set := parse(t, `
rules:
  - {name: any make, effect: ask, command: make}
  - {name: deploys, effect: ask, command: [make deploy, kubectl], approve: passkey}
  - {name: never, effect: deny, command: kubectl delete}
  - {name: release files, effect: ask, tool: "file_*", path: /workspace/release/**, approve: passkey}
`)
	for name, c := range map[string]struct {
		call policy.Call
		want bool
	}{
		"its command":                   {shellCall("make deploy"), true},
		"one part of a script":          {shellCall("make check && sh -c 'make deploy'"), true},
		"behind another rule's":         {shellCall("make deploy; make check"), true},
		"what may be its command":       {shellCall("V=$(awk 1 x); make $V"), true},
		"what cannot be read":           {shellCall("make check; python3 gen.py | sh"), true},
		"another rule's command":        {shellCall("make check"), false},
		"a command of no rule":          {shellCall("ls"), false},
		"what is denied":                {shellCall("kubectl delete pod x"), false},
		"its file":                      {policy.Call{Tool: "file_write", Arguments: map[string]any{"path": "release/v1"}}, true},
		"another file":                  {policy.Call{Tool: "file_write", Arguments: map[string]any{"path": "docs/v1"}}, false},
		"a dangerous call of its rules": {shellCall("make deploy; rm -rf /"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := set.Decide(c.call)
			if got.Passkey != c.want || c.want != strings.Contains(got.Why, "takes a passkey") {
				t.Errorf("%v: got %+v, want %t", c.call.Arguments, got, c.want)
			}
		})
	}
}

func TestRulesHoldForNodesTimesAndAgents(t *testing.T) {
	t.Parallel()
	set := parse(t, rules)
	call := shellCall("make deploy")
	call.Labels = map[string]string{"env": "prod"}
	if got := set.Decide(call); got.Effect != policy.Ask || got.Rule != "prod" {
		t.Errorf("on a node of prod: %+v", got)
	}
	for at, want := range map[string]policy.Effect{
		"2026-06-03T12:00:00Z": policy.None, "2026-06-03T20:30:00Z": policy.Deny, // Wednesday, 22:30 in Berlin
		"2026-06-06T03:00:00Z": policy.Deny, "2026-06-07T03:00:00Z": policy.None, // early on Saturday is Friday's night
	} {
		call := shellCall("deploy now")
		var err error
		if call.At, err = time.Parse(time.RFC3339, at); err != nil {
			t.Fatal(err)
		}
		if got := set.Decide(call); got.Effect != want {
			t.Errorf("at %s: %+v, want %q", at, got, want)
		}
	}
	call = shellCall("ls")
	call.Agent = "db-migrator"
	if got := set.Decide(call); got.Effect != policy.Deny || got.Rule != "other agent" {
		t.Errorf("another agent: %+v", got)
	}
}

// For a policy file with errors, every error is reported with its line.
func TestAPolicyWithErrorsSaysWhatIsWrongAndWhere(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rules:\n  - {name: a, effect: perhaps}":                                       `policy.yaml:2: "perhaps" is no effect`,
		"rules:\n  - {name: a, effect: deny, comand: x}":                               `policy.yaml:2: there is no key "comand"`,
		"rules:\n  - effect: deny\n    command: git push\n    match: [git pull]":       `policy.yaml:4: rule rule-1 must match the example "git pull", and does not`,
		"rules:\n  - effect: deny\n    command: git\n    not_match:\n      - git pull": `policy.yaml:5: rule rule-1 must not match the example "git pull", and does`,
		"rules:\n  - {effect: allow}":                                                  "would allow every call",
		"rules:\n  - {name: a, effect: ask, tool: x, approve: twice}":                  "policy.yaml:2: approve must be passkey",
		"rules:\n  - {name: a, effect: deny, tool: x, approve: passkey}":               "write effect: ask",
		"rules: [a": "is not valid YAML",
		"rules:\n  - {effect: deny, command: \"git $X\"}":                                    "must be plain words",
		"rules:\n  - {effect: deny, tool: x, time: {from: noon}}":                            "is no time of day",
		"limits:\n  - {tool: a, calls: 1}":                                                   "per is missing",
		"dangerous: {floods: ask}":                                                           `there is no key "floods"`,
		"categories: {shell_exec: fine}":                                                     `"fine" is no category`,
		"rules: &a\n  - {effect: deny, tool: x}":                                             "anchors and aliases",
		"rules:\n  - {name: a, effect: deny, tool: x}\n  - {name: a, effect: deny, tool: y}": `two rules are called "a"`,
	} {
		_, err := policy.Parse("policy.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot %v, want %q", text, err, want)
		}
	}
}

func TestDangersMayBeDeniedOrLetPass(t *testing.T) {
	t.Parallel()
	set := parse(t, "dangerous: {wipe: deny, logs: allow}")
	for script, want := range map[string]policy.Effect{
		"rm -rf /": policy.Deny, "systemctl stop rsyslog": policy.None, "mkfs /dev/sda": policy.Ask, "ls": policy.None,
	} {
		got := set.Decide(shellCall(script))
		if got.Effect != want {
			t.Errorf("%s: got %+v, want %q", script, got, want)
		}
	}
	// Also in what an earlier call wrote.
	call := shellCall("bash tidy.sh")
	call.Written = shell.Record{}.With("/workspace/tidy.sh", "rm -rf /")
	if got := set.Decide(call); got.Effect != policy.Deny || len(got.Dangers) != 1 {
		t.Errorf("a script that was written before: %+v", got)
	}
}

// Everyday commands require no approval because of a rule about something else.
func TestRulesAreNotAboutWhatTheyDoNotSay(t *testing.T) {
	t.Parallel()
	denied := parse(t, `
rules:
  - {name: files, effect: deny, path: [/etc/**, "**/.env"]}
  - {name: ci, effect: deny, write: /workspace/.github/**}
  - {name: only, effect: deny, not_host: [github.com, "*.github.com"]}
`)
	usual := parse(t, `
default: ask
rules:
  - {name: usual, effect: allow, command: [go, ls, npm, npx eslint, uv run pytest, npx tsc, sort, cat, find]}
`)
	for name, c := range map[string]struct {
		set    policy.Set
		script string
		want   policy.Effect
	}{
		"a wildcard takes no leading dot":       {denied, "gofmt -l *.go; cat *", policy.None},
		"one that does":                         {denied, "cat .e*", policy.Ask},
		"words that are no files":               {denied, `kill "$(pgrep x)"; [ -n "$(id)" ]; echo "$(date)"; printf %s "$(id)"`, policy.None},
		"the pattern of grep":                   {denied, `grep "$(cat word.txt)" a.txt`, policy.None},
		"a loop over files":                     {denied, `for f in *.md; do wc -l "$f"; done`, policy.None},
		"a name in a text":                      {denied, "echo .env >> .gitignore", policy.None},
		"reading what may not be written":       {denied, "cat .github/ci.yml", policy.None},
		"writing what may only be read":         {denied, "cp ci.yml .github/", policy.Deny},
		"a tool that writes it":                 {denied, "prettier .github/ci.yml", policy.Ask},
		"an allowed host":                       {denied, "curl -s https://api.github.com/x && git clone git@github.com:a/b", policy.None},
		"another host":                          {denied, "curl -s x.test", policy.Deny},
		"a log of what does nothing of its own": {usual, "timeout 60 go test > log; nohup npm start > log &", policy.Allow},
		"a test with its errors thrown away":    {usual, "[ -f x ] 2>/dev/null && pushd web >/dev/null", policy.None},
		"a block into a file":                   {usual, "(cd web && go vet) > log; while read f; do cat a; done < list > out", policy.Allow},
		"a block into a file elsewhere":         {usual, "(cd web && go vet) > /srv/log", policy.Ask},
		"the words of an allowed prefix":        {usual, "npx eslint src && uv run pytest -q && npx tsc", policy.Allow},
		"other words of the same wrapper":       {usual, "npx prettier src", policy.Ask},
		"the same behind another command":       {usual, "npx eslint src && eslint src", policy.Ask},
		"a look for a program":                  {usual, "command -v docker && go test", policy.Allow},
		"variables that change nothing":         {usual, "export CI=1; declare x=2; mapfile -t l < a; go test", policy.Allow},
		"variables that change what runs":       {usual, "export GOFLAGS=-toolexec=./x PATH=.:$PATH; go test", policy.Ask},
		"many numbers":                          {usual, "for i in {1..150}; do go test; done", policy.Allow},
		"a program of the workspace":            {usual, "./go test", policy.Ask},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.set.Decide(shellCall(c.script)); got.Effect != c.want {
				t.Errorf("%s: got %+v, want %q", c.script, got, c.want)
			}
		})
	}
}

// A shell that gets unknown text requires an approval even without a rule about it, and a
// policy may change that.
func TestAShellThatIsGivenUnknownTextIsAskedAbout(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]policy.Effect{
		`python3 gen.py | sh`: policy.Ask, `eval "$(tail -n1 notes.txt)"`: policy.Ask, `ssh host "$(cat cmds.txt)"`: policy.Ask, "if": policy.Ask,
		`eval "$(ssh-agent -s)"`: policy.None, `source <(kubectl completion bash)`: policy.None, `sh build.sh`: policy.None, `cat build.sh | sh`: policy.None,
		`bash -c "cd $DIR && make"`: policy.None, `ssh host "docker pull x:$(git rev-parse HEAD)"`: policy.None,
	} {
		if got := policy.Default().Decide(shellCall(script)); got.Effect != want {
			t.Errorf("%s: got %+v, want %q", script, got, want)
		}
	}
	for text, want := range map[string]policy.Effect{"unclear: allow": policy.None, "unclear: deny": policy.Deny, "unclear: ask": policy.Ask} {
		if got := parse(t, text).Decide(shellCall("python3 gen.py | sh")); got.Effect != want {
			t.Errorf("%s: got %+v, want %q", text, got, want)
		}
	}
}

// A rule that nothing fits is refused, with what to write instead; one that was
// applied before still holds with the rest of its policy.
func TestARuleThatNeverMatchesNamesWhatToWriteInstead(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		`path: ~/.ssh/**`:                           `path "~/.ssh/**" never matches: write "/workspace/.ssh/**"`,
		`path: .env`:                                `path ".env" never matches: write "**/.env"`,
		`path: ./src/**`:                            `path "./src/**" never matches: write "/workspace/src/**"`,
		`write: src/gen`:                            `write "src/gen" never matches: write "/workspace/src/gen"`,
		`read: /etc/`:                               `read "/etc/" never matches: write "/etc/**"`,
		`path: /a/../etc/x`:                         `path "/a/../etc/x" never matches: write "/etc/x"`,
		`host: https://x.test/a`:                    `host "https://x.test/a" never matches: write "x.test"`,
		`not_host: X.test.`:                         `not_host "X.test." never matches: write "x.test"`,
		`host: "x.test:443"`:                        `host "x.test:443" never matches: write "x.test"`,
		`tool: file_write, command: git`:            `its tools run no commands`,
		`tool: x, mode: watched`:                    `"watched" is no mode`,
		`tool: x, files: 0`:                         `files must be a number from 1`,
		`tool: x, undoable: sometimes`:              `undoable must be true or false`,
		`tool: x, time: {from: "9:00", to: "9:00"}`: `holds at no time`,
	} {
		_, err := policy.Parse("policy.yaml", []byte("rules:\n  - {effect: deny, "+rule+"}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot %v, want %q", rule, err, want)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "  - {effect: ask, command: tool%d sub, path: \"/srv/%d/**\"}\n", i, i)
	}
	p, err := policy.Parse("policy.yaml", []byte(text.String()))
	if err != nil {
		b.Fatal(err)
	}
	set := policy.Set{{Name: "organisation 1", Policy: p}}
	call := shellCall("git status && go test ./... > out.txt")
	for b.Loop() {
		set.Decide(call)
	}
}

// FuzzParse holds that no file has the reader panic.
func FuzzParse(f *testing.F) {
	f.Add(rules)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := policy.Parse("policy.yaml", []byte(text))
		if (p == nil) == (err == nil) {
			t.Errorf("got %v and %v", p, err)
		}
	})
}
