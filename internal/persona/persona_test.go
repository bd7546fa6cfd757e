package persona_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

var known = persona.Vocabulary{
	Tools:     []string{"shell_exec", "file_read", "update_plan", "complete_task"},
	Providers: []string{"script", "anthropic", "openai"},
	Modes:     []string{"autonomous"},
}

const whole = `---
name: log-triage
description: Reads logs
provider: anthropic
model: claude-sonnet-5-5
fallbacks:
  - {provider: openai, model: gpt-5}
  - provider: anthropic
    model: claude-haiku-4-5
max_tokens: 4096
cache_ttl: 1h
thinking: 2048
context: {memory_tokens: 1500, patterns: true}
tools: [shell_exec, file_read]
trust: untrusted
mode: autonomous
limits:
  iterations: 7
  active_time: 5m
  tokens: 1000
  calls: 20
  cost_usd: 0.5
  subtasks: 3
  depth: 2
  on_limit: pause
  failures: 5
agents: {delegate: [qa], handoff: [ops, qa], rounds: 4}
nodes:
  names: [web-1]
  labels: {role: web, rack: 7}
workspace:
  scope: task
  size: 2GiB
  git: {url: https://github.com/acme/web.git, ref: release/2, credential: github, depth: 50}
credentials:
  - internal-api
  - name: github
    repositories: [acme/web, acme/docs.site]
    permissions: {contents: write, pull_requests: write}
    push: ["refs/heads/deckhand/* create,update"]
approvals: {tools: [shell_exec], categories: [moderate, dangerous], timeout: 2h, on_timeout: stop}
jail:
  image: ghcr.io/team/tools:1.26
  root: writable
  user: root
  setup: [apt-get update, apt-get install -y git, apt-get update]
  setup_egress: {allow: [deb.debian.org]}
  cpus: 1.5
  memory: 512MiB
  max_memory: 2GiB
  pids: 64
  tmp: 100MB
  read_only_paths: [/var/log]
egress:
  presets: [git]
  allow:
    - api.example.com
    - "*.example.org:8443"
    - {host: inner.example.net, ports: [8080, 9090], methods: [GET], private: true}
    - {host: 10.1.0.0/16, read_only: true}
    - {host: api.github.com, http: ["allow GET /repos/{owner}/{repo}/**", "tool http_post POST /repos/**"]}
    - {preset: models, read_only: true}
  tcp: ["db.example.net:5432", {to: "10.2.0.7:22", listen: 2222}]
hub_access: true
offline_grace: 90s
jobs: {max_time: 3h}
browser: {record: true}
output_limit: 64MiB
checkpoints: on_risk
---
# Role

You read logs.
---
A rule is no end.
`

// One file holds role, limits and instructions.
func TestEveryKeyIsRead(t *testing.T) {
	t.Parallel()
	got, err := persona.Parse("a.md", []byte(whole), known)
	require.NoError(t, err)
	require.Equal(t, &persona.Persona{
		Name: "log-triage", Description: "Reads logs", Provider: "anthropic", Model: "claude-sonnet-5-5",
		Fallbacks: []persona.Fallback{{Provider: "openai", Model: "gpt-5"}, {Provider: "anthropic", Model: "claude-haiku-4-5"}},
		MaxTokens: 4096, Thinking: persona.Thinking{Tokens: 2048}, CacheTTL: time.Hour, Tools: []string{"shell_exec", "file_read"},
		Context: persona.Context{MemoryTokens: 1500, Patterns: true},
		Trust:   persona.Untrusted, Mode: persona.Autonomous,
		Approvals: persona.Approvals{
			Tools: []string{"shell_exec"}, Categories: []string{"moderate", "dangerous"}, Timeout: 2 * time.Hour, OnTimeout: persona.StopTask,
		},
		Limits: persona.Limits{Iterations: 7, ActiveTime: 5 * time.Minute, Tokens: 1000, Calls: 20, CostUSD: 0.5, Files: 1000, FileSize: 100 << 20, Subtasks: 3, Depth: 2, OnLimit: persona.PauseAtLimit, Failures: 5, Outage: 24 * time.Hour},
		Agents: persona.Agents{Delegate: []string{"qa"}, Handoff: []string{"ops", "qa"}, Rounds: 4},
		Nodes:  persona.Nodes{Names: []string{"web-1"}, Labels: map[string]string{"role": "web", "rack": "7"}},
		Workspace: persona.Workspace{
			Scope: persona.ScopeTask, SizeBytes: 2 << 30,
			Git: &persona.Checkout{URL: "https://github.com/acme/web.git", Ref: "release/2", Credential: "github", Depth: 50},
		},
		Credentials: []persona.Credential{{Name: "internal-api"}, {
			Name: "github", Repositories: []string{"acme/web", "acme/docs.site"},
			Permissions: map[string]string{"contents": "write", "pull_requests": "write"},
			Pushes:      []string{"refs/heads/deckhand/* create,update"},
		}},
		Jail: persona.Jail{
			Image: "ghcr.io/team/tools:1.26", WritableRoot: true, RootUser: true,
			Setup:       []string{"apt-get update", "apt-get install -y git", "apt-get update"},
			SetupEgress: allowlist.List{Rules: []allowlist.Rule{{Host: "deb.debian.org"}}},
			CPUMillis:   1500, MemoryBytes: 512 << 20, MaxMemoryBytes: 2 << 30, PIDs: 64, TmpBytes: 100e6, ReadOnlyPaths: []string{"/var/log"},
		},
		Egress: allowlist.List{
			Rules: slices.Concat(allowlist.Preset("git"), []allowlist.Rule{
				{Host: "api.example.com"}, {Host: "*.example.org", Ports: []uint16{8443}},
				{Host: "inner.example.net", Ports: []uint16{8080, 9090}, Methods: []string{"GET"}, Private: true},
				{Host: "10.1.0.0/16", ReadOnly: true},
				{Host: "api.github.com", HTTP: []string{"allow GET /repos/{owner}/{repo}/**", "tool http_post POST /repos/**"}},
			}, readOnly(allowlist.Preset("models"))),
			Forwards: []allowlist.Forward{{Listen: 5432, Host: "db.example.net", Port: 5432}, {Listen: 2222, Host: "10.2.0.7", Port: 22}},
		},
		Jobs: persona.Jobs{MaxTime: 3 * time.Hour}, Browser: persona.Browser{Record: true},
		HubAccess: true, OfflineGrace: 90 * time.Second, OutputBytes: 64 << 20, Checkpoints: persona.OnRisk,
		Prompt: "# Role\n\nYou read logs.\n---\nA rule is no end.",
	}, got)

	crlf, err := persona.Parse("a.md", []byte("\ufeff"+strings.ReplaceAll(whole, "\n", "\r\n")), known)
	require.NoError(t, err)
	require.Equal(t, got, crlf)
}

func TestWhatIsNotSaidHasADefault(t *testing.T) {
	t.Parallel()
	got, err := persona.Parse("a.md", []byte("---\nname: a\ndescription: b\nprovider: script\nscript: a.yaml\ntools: []\nlimits: {iterations: 50}\n---\nx"), known)
	require.NoError(t, err)
	require.Equal(t, "scripted", got.Model)
	require.Equal(t, "a.yaml", got.Script)
	require.Zero(t, got.Thinking)
	require.Zero(t, got.OfflineGrace, "the node's own")
	require.Equal(t, time.Hour, got.Jobs.MaxTime)
	require.Equal(t, persona.Limits{Iterations: 50, ActiveTime: 30 * time.Minute, Tokens: 500_000, Calls: 1000, CostUSD: 10, Files: 1000, FileSize: 100 << 20, Subtasks: 20, Depth: 10, OnLimit: persona.StopAtLimit, Failures: 3, Outage: 24 * time.Hour}, got.Limits)
	require.Equal(t, persona.Jail{CPUMillis: 2000, MemoryBytes: 4 << 30, MaxMemoryBytes: 4 << 30, PIDs: 512, TmpBytes: 1 << 30}, got.Jail)
	require.Equal(t, persona.Workspace{Scope: persona.ScopeAgent, SizeBytes: 10 << 30}, got.Workspace)
}

// Jobs can be kept in a workspace that lasts, and in no other.
func TestKeptJobsNeedAWorkspaceThatLasts(t *testing.T) {
	t.Parallel()
	with := func(workspace string) (*persona.Persona, error) {
		return persona.Parse("a.md", []byte("---\nname: a\ndescription: d\nprovider: anthropic\nmodel: m\ntools: [shell_exec]\nlimits: {iterations: 1}\nworkspace: {"+workspace+"}\n---\nx\n"), known)
	}
	p, err := with("keep_jobs: true")
	require.NoError(t, err)
	require.True(t, p.Workspace.KeepJobs)
	_, err = with("keep_jobs: true, scope: task")
	require.ErrorContains(t, err, "a.md:8: workspace.keep_jobs needs a workspace that lasts: write scope: agent, or remove keep_jobs")
	p, err = with("restore_on_failure: tests pass")
	require.NoError(t, err)
	require.Equal(t, "tests pass", p.Workspace.RestoreOnFailure)
	_, err = with("restore_on_failure: before risk")
	require.ErrorContains(t, err, "a.md:8: workspace.restore_on_failure is \"before risk\", which no rule makes: add checkpoints: on_risk")
	_, err = with("restore_on_failure: " + strings.Repeat("x", 101))
	require.ErrorContains(t, err, "a.md:8: workspace.restore_on_failure")
}

// Line numbers, unknown keys and tools, missing limits, what to write
// instead, and all of it at once.
func TestEveryProblemIsReportedWithItsLineAndWhatToWrite(t *testing.T) {
	t.Parallel()
	_, err := persona.Parse("bad.md", []byte(`---
name: Log Triage
descripton: Reads logs
provider: antropic
model: 5
tools: [shel_exec, shell_exec, shell_exec, telepathy]
mode: supervised
limits:
  iterations: 5000
  active_time: soon
  wall: 3
workspace: {size: 2}
jail:
  read_only_paths: [var/log, /a/../etc]
  pids: "many"
  max_memory: 1GiB
colour: []
name: twice
offline_grace: 3s
---
`), known)
	var problems *persona.Problems
	require.ErrorAs(t, err, &problems)
	require.Equal(t, strings.TrimSpace(`
bad.md:2: name is "Log Triage": use lower-case letters, digits and dashes, beginning with a letter, at most 63
bad.md:2: description is missing: write description: and one line that says what the agent is for
bad.md:3: unknown key "descripton": write "description"
bad.md:4: provider is "antropic": write "anthropic"
bad.md:5: model must be text: put it in quotes if YAML takes it for something else
bad.md:6: unknown tool "shel_exec": write "shell_exec"
bad.md:6: tools has "shell_exec" twice: keep one
bad.md:6: unknown tool "telepathy": write one of shell_exec, file_read, update_plan, complete_task
bad.md:7: mode supervised is not to be had here yet: write autonomous
bad.md:9: limits.iterations must be a whole number from 1 to 1000
bad.md:10: limits.active_time must be a time from 1s to 168h with its unit, such as 30m
bad.md:11: unknown key "limits.wall": write one of iterations, active_time, tokens, calls, cost_usd, files, file_size, subtasks, depth, on_limit, failures, outage
bad.md:12: workspace.size must be a size with its unit, such as 512MiB or 4GiB
bad.md:14: jail.read_only_paths has "var/log": write an absolute folder of the machine without .. or a trailing slash, such as /var/log
bad.md:14: jail.read_only_paths has "/a/../etc": write an absolute folder of the machine without .. or a trailing slash, such as /var/log
bad.md:15: jail.pids must be a whole number from 8 to 4000000
bad.md:16: jail.max_memory is less than jail.memory (4096 MiB): give at least as much, or leave it out
bad.md:17: unknown key "colour": write one of name, description, title, avatar, task_type, goal, provider, model, script, fallbacks, max_tokens, thinking, cache_ttl, context, tools, mcp, agents, trust, mode, approvals, limits, nodes, workspace, jail, egress, credentials, hub_access, triggers, offline_grace, jobs, checkpoints, browser, output_limit, host
bad.md:18: name is given twice (first in line 2): keep one
bad.md:19: offline_grace is 3s: it must be at least 15s, since a node hears of its hub every few seconds only
bad.md:21: the body is empty: below the second --- line write the agent's instructions in Markdown
`), err.Error())
}

// What is wrong with an approval policy is said where it stands.
func TestApprovalsThatContradictThemselves(t *testing.T) {
	t.Parallel()
	_, err := persona.Parse("bad.md", []byte(`---
name: a
description: b
provider: script
script: a.yaml
approvals:
  tools: [file_read, complete_task, shell_exec]
  categories: [harmless]
  timeout: 8d
  on_timeout: approve
tools: [shell_exec]
limits: {iterations: 50}
---
x`), known)
	require.EqualError(t, err, strings.TrimSpace(`
bad.md:7: approvals.tools has "file_read", which tools does not list: add it there, or remove it here
bad.md:8: approvals.categories has "harmless": write one of safe, moderate, dangerous
bad.md:9: approvals.timeout must be a time from 1s to 168h with its unit, such as 30m
bad.md:10: approvals.on_timeout is "approve": write one of reject, stop
`))
}

func TestFilesThatCannotBeReadSayWhy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ file, says string }{
		"nothing":                         {"", "f.md:1: the file must begin with a line of three dashes"},
		"no front matter":                 {"# Role", "f.md:1: the file must begin with a line of three dashes"},
		"front matter without an end":     {"---\nname: a\n", "f.md:1: the front matter does not end"},
		"empty front matter":              {"---\n---\nx", "f.md:1: the front matter is empty"},
		"a list":                          {"---\n- a\n---\nx", "f.md:2: the front matter must be keys and values"},
		"broken YAML":                     {"---\nname: a\nb: [1, 2\n---\nx", "f.md:3: the front matter is not valid YAML"},
		"a tab":                           {"---\nname: a\n\tb: 1\n---\nx", "f.md:3: the front matter is not valid YAML"},
		"two documents":                   {"---\nname: a\n--- \n", "f.md:"},
		"a document's end":                {"---\nname: a\n...\nname: b\n---\nx", "more than one YAML document"},
		"bytes that are no UTF-8":         {"---\nname: a\nb: \xff\n---\nx", "f.md:3: the file is not UTF-8"},
		"a bomb of aliases":               {"---\na: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n---\nx", "f.md:2: YAML anchors and aliases are not allowed"},
		"a merge":                         {"---\na: &a {x: 1}\n<<: *a\n---\nx", "anchors and aliases"},
		"deep nesting":                    {"---\na: " + strings.Repeat("[", 30) + strings.Repeat("]", 30) + "\n---\nx", "nested more than 8 levels"},
		"nesting without end":             {"---\na: " + strings.Repeat("[", 60_000) + "\n---\nx", "f.md:"},
		"front matter of 100 KB":          {"---\na: " + strings.Repeat("x", 100_000) + "\n---\nx", "longer than 65536 bytes"},
		"a file of 2 MB":                  {strings.Repeat("x", 2<<20), "at most 1048576"},
		"a script for a real model":       {"---\nname: a\nprovider: anthropic\nmodel: m\nscript: s.yaml\n---\nx", "f.md:5: script goes with provider script only"},
		"a scripted model without one":    {"---\nname: a\nprovider: script\n---\nx", "f.md:3: script is missing"},
		"a script in another folder":      {"---\nname: a\nprovider: script\nscript: ../s.yaml\n---\nx", "f.md:4: script is"},
		"a cap on a scripted model":       {"---\nname: a\nprovider: script\nscript: s.yaml\nmax_tokens: 900\n---\nx", "f.md:5: max_tokens does nothing with provider script"},
		"a real model without a name":     {"---\nname: a\nprovider: anthropic\n---\nx", "f.md:3: model is missing"},
		"a fallback that is no model":     {"---\nfallbacks: [gpt-5]\n---\nx", "f.md:2: fallbacks must be keys and values"},
		"a fallback without a model":      {"---\nfallbacks:\n- {provider: openai}\n---\nx", "f.md:3: model is missing"},
		"a fallback on nobody":            {"---\nfallbacks: [{provider: opnai, model: m}]\n---\nx", `f.md:2: fallbacks.provider is "opnai"`},
		"a script as a fallback":          {"---\nfallbacks: [{provider: script, model: m}]\n---\nx", "f.md:2: fallbacks has provider script"},
		"a fallback on itself":            {"---\nprovider: openai\nmodel: m\nfallbacks: [{provider: openai, model: m}]\n---\nx", "f.md:4: fallbacks has"},
		"a fallback twice":                {"---\nfallbacks: [{provider: openai, model: m}, {provider: openai, model: m}]\n---\nx", "twice: keep one"},
		"fallbacks of a script":           {"---\nname: a\nprovider: script\nscript: s.yaml\nfallbacks: [{provider: openai, model: m}]\n---\nx", "f.md:5: fallbacks does nothing"},
		"a cache of another time":         {"---\ncache_ttl: 2h\n---\nx", "f.md:2: cache_ttl is \"2h\": write \"1h\""},
		"more thinking than output":       {"---\nthinking: 9000\n---\nx", "f.md:2: thinking is 9000: it must be less than max_tokens (8192)"},
		"thinking in words":               {"---\nthinking: hard\n---\nx", "f.md:2: thinking must be adaptive, or a number"},
		"a key that YAML makes a mapping": {"---\n{a: b}: c\n---\nx", "f.md:2:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := persona.Parse("f.md", []byte(tc.file), known)
			require.Nil(t, got)
			require.ErrorContains(t, err, tc.says)
			var problems *persona.Problems
			require.ErrorAs(t, err, &problems)
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{whole, "---\n---\n", "---\na: &a [*a]\n---\nx", "---\n? {a: b}\n---\n", "---\n!!binary x\n---\n", "---\n%TAG ! x\n---\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := persona.Parse("f.md", data, known)
		require.Equal(t, err == nil, got != nil)
		if err != nil {
			var problems *persona.Problems
			require.ErrorAs(t, err, &problems)
			require.NotEmpty(t, problems.List)
			lines := strings.Count(string(data), "\n") + 2
			for _, p := range problems.List {
				require.GreaterOrEqual(t, p.Line, 1)
				require.LessOrEqual(t, p.Line, lines)
			}
		}
	})
}

func readOnly(rules []allowlist.Rule) []allowlist.Rule {
	for i := range rules {
		rules[i].ReadOnly = true
	}
	return rules
}

// What is wrong with an egress, and what to write.
func TestAnEgressIsCheckedLineByLine(t *testing.T) {
	t.Parallel()
	_, err := persona.Parse("bad.md", []byte(`---
name: a
description: b
provider: script
script: a.yaml
tools: []
limits: {iterations: 50}
egress:
  presets: [gti, internet-of-everything]
  allow:
    - https://example.com/
    - {host: example.com, ports: [0], methods: [get, FETCH], private: maybe}
    - {private: true}
    - {preset: git, private: true}
    - {host: "example.com:80", ports: [81]}
    - {host: 10.0.0.0/8, private: true}
    - {host: example.com, methods: [POST], read_only: true}
    - {hosts: example.com}
    - "a*.example.com"
    - 10.0.0.1/8
  tcp:
    - db.example.com
    - {to: "db.example.com:5432", listen: 80}
    - {listen: 5432}
  deny: [example.com]
---
x`), known)
	require.Equal(t, strings.TrimSpace(`
bad.md:9: egress.presets has "gti": write one of git, models, packages
bad.md:9: egress.presets has "internet-of-everything": write one of git, models, packages
bad.md:11: egress.allow has "https://example.com/": write the host alone, without "https://" and without a path
bad.md:12: egress.allow.ports must be a whole number from 1 to 65535
bad.md:12: egress.allow.methods has "get": write "GET"
bad.md:12: egress.allow.methods has "FETCH": write one of GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE
bad.md:12: egress.allow.private must be true or false
bad.md:12: egress.allow: port 0 is repeated or out of range
bad.md:13: egress.allow has an entry without host and preset, or with both: name one, such as {host: api.example.com}
bad.md:14: egress.allow has a preset with more than read_only: write its hosts out
bad.md:15: egress.allow names ports twice, behind the host and as ports: keep one
bad.md:16: egress.allow: private has no effect on an address: leave it out
bad.md:17: egress.allow: the method POST is not allowed in a read-only rule
bad.md:18: unknown key "egress.allow.hosts": write "host"
bad.md:18: egress.allow has an entry without host and preset, or with both: name one, such as {host: api.example.com}
bad.md:19: egress.allow has "a*.example.com": "a*.example.com" has a * that does not stand for all that is before the first dot: write *.example.com
bad.md:20: egress.allow has "10.0.0.1/8": 10.0.0.1/8 is an address inside a network: write 10.0.0.0/8
bad.md:22: egress.tcp has "db.example.com": "db.example.com" names no port: write a host with its port, such as db.example.com:5432
bad.md:23: egress.tcp.listen must be a whole number from 1024 to 65535
bad.md:24: to is missing: write to: and a host with its port, such as db.example.com:5432
bad.md:25: unknown key "egress.deny": write one of presets, allow, tcp
`), err.Error())

	_, err = persona.Parse("bad.md", []byte("---\nname: a\ndescription: b\nprovider: script\nscript: a.yaml\ntools: []\nlimits: {iterations: 50}\n"+
		"egress: {tcp: [\"a.example:443\", \"b.example:5432\"]}\n---\nx"), known)
	require.EqualError(t, err, "bad.md:8: egress: a TCP forward listens on port 443: use one from 1024 on, other than 3128, which is the proxy's")
}

// An image is named whole, and host is the machine's own system folders.
func TestTheImageOfAJail(t *testing.T) {
	t.Parallel()
	text := func(image string) []byte {
		return []byte("---\nname: a\ndescription: For tests.\nprovider: script\nscript: a.script.yaml\ntools: [shell_exec]\nlimits: {iterations: 5}\njail: {image: " + image + "}\n---\nWork.\n")
	}
	for image, want := range map[string]string{
		"host": "", "docker.io/library/golang:1.26": "docker.io/library/golang:1.26", "127.0.0.1:5000/a@sha256:" + strings.Repeat("0", 64): "127.0.0.1:5000/a@sha256:" + strings.Repeat("0", 64),
	} {
		p, err := persona.Parse("a.md", text(image), known)
		require.NoError(t, err, image)
		require.Equal(t, want, p.Jail.Image)
	}
	for image, fix := range map[string]string{
		"golang:1.26": "if Docker Hub is meant, write docker.io/library/golang:1.26", "ghcr.io/team/app": "name the registry and the tag or digest", "'not an image'": "write REGISTRY/NAME:TAG",
	} {
		_, err := persona.Parse("a.md", text(image), known)
		require.ErrorContains(t, err, "a.md:8: jail.image has ")
		require.ErrorContains(t, err, fix)
	}
}

// What changes an image needs one, and two setups are the same if their commands are.
func TestASetupNeedsAnImage(t *testing.T) {
	t.Parallel()
	parse := func(jail string) (*persona.Persona, error) {
		return persona.Parse("a.md", []byte("---\nname: a\ndescription: For tests.\nprovider: script\nscript: a.script.yaml\ntools: [shell_exec]\nlimits: {iterations: 5}\njail: {"+jail+"}\n---\nWork.\n"), known)
	}
	for jail, says := range map[string]string{
		"root: writable":             "jail.root needs a container image",
		"user: root":                 "jail.user needs a container image",
		"image: host, setup: [make]": "jail.setup needs a container image",
		"image: ghcr.io/team/app:1, setup_egress: {allow: [a.example]}": "jail.setup_egress has no jail.setup",
		"image: ghcr.io/team/app:1, setup: []":                          "jail.setup must be a list of 1 to 50 commands",
		"image: ghcr.io/team/app:1, setup: make":                        "jail.setup must be a list of 1 to 50 commands",
		"image: ghcr.io/team/app:1, setup: ['  ']":                      "jail.setup has an empty command",
		"image: ghcr.io/team/app:1, root: writeable":                    `write "writable"`,
		"image: ghcr.io/team/app:1, user: somebody":                     "jail.user is \"somebody\"",
	} {
		_, err := parse(jail)
		require.ErrorContains(t, err, says, jail)
	}
	digest := func(jail string) string {
		p, err := parse("image: ghcr.io/team/app:1, " + jail)
		require.NoError(t, err)
		return p.Jail.SetupDigest()
	}
	require.Empty(t, digest("root: read-only, user: agent"))
	require.Equal(t, digest("setup: [a, b]"), digest("setup: [a, b], memory: 1GiB"))
	require.NotEqual(t, digest("setup: [a, b]"), digest("setup: [a, b], setup_egress: {allow: [a.example]}"))
	require.NotEqual(t, digest("setup: [a, b]"), digest("setup: [b, a]"))
	require.NotEqual(t, digest("setup: [a, b]"), digest("setup: [\"a\\nb\"]"))
}

// A background command has at most a day.
func TestTheTimeOfJobsIsBounded(t *testing.T) {
	t.Parallel()
	for given, valid := range map[string]bool{"1m": true, "24h": true, "25h": false, "30s": false} {
		_, err := persona.Parse("a.md", []byte(before+"jobs: {max_time: "+given+"}\n---\nx"), known)
		if valid {
			require.NoError(t, err, given)
		} else {
			require.ErrorContains(t, err, "use 1m to 24h", given)
		}
	}
}
