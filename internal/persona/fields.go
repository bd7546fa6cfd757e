package persona

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/imageref"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

var (
	agentName = regexp.MustCompile(NamePattern)
	taskType  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	nodeName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`)
)

// NamePattern is what an agent's name looks like.
const NamePattern = `^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`

// ProviderScript is the provider whose model is a script beside the persona.
const ProviderScript = "script"

// leastGrace is three heartbeats of the link: no shorter silence means that a
// node is cut off.
const leastGrace = 15 * time.Second

// persona reads the top mapping into p.
func (d *decoder) persona(root *yaml.Node, p *Persona) {
	var asked, named []*yaml.Node
	met := d.mapping(root, "", []field{
		{"name", func(n *yaml.Node) {
			p.Name = d.text(n, "name", 63)
			if p.Name != "" && !agentName.MatchString(p.Name) {
				d.problems.add(n.Line, "name is %s: use lower-case letters, digits and dashes, beginning with a letter, at most 63", quote(p.Name))
			}
		}},
		{"description", func(n *yaml.Node) { p.Description = d.text(n, "description", 500) }},
		{"title", func(n *yaml.Node) { p.Title = d.text(n, "title", 60) }},
		{"avatar", func(n *yaml.Node) { p.Avatar = avatarOf(&d.reader, n) }},
		{"task_type", func(n *yaml.Node) {
			p.TaskType = d.text(n, "task_type", 63)
			if p.TaskType != "" && !taskType.MatchString(p.TaskType) {
				d.problems.add(n.Line, "task_type is %s: use lower-case letters, digits and dashes, at most 63", quote(p.TaskType))
			}
		}},
		{"goal", func(n *yaml.Node) { p.Goal = d.text(n, "goal", 10_000) }},
		{"provider", func(n *yaml.Node) { p.Provider = d.choice(n, "provider", d.known.Providers) }},
		{"model", func(n *yaml.Node) { p.Model = d.text(n, "model", 128) }},
		{"script", func(n *yaml.Node) {
			p.Script = d.text(n, "script", 255)
			if strings.ContainsAny(p.Script, `/\`) || p.Script == ".." || p.Script == "." {
				d.problems.add(n.Line, "script is %s: name a file beside the persona, without folders", quote(p.Script))
			}
		}},
		{"fallbacks", func(n *yaml.Node) { p.Fallbacks = d.fallbacks(n) }},
		{"max_tokens", func(n *yaml.Node) { p.MaxTokens = int(d.integer(n, "max_tokens", 256, 200_000)) }},
		{"thinking", func(n *yaml.Node) { p.Thinking = d.thinking(n) }},
		{"cache_ttl", func(n *yaml.Node) {
			if d.choice(n, "cache_ttl", []string{"5m", "1h"}) == "1h" {
				p.CacheTTL = time.Hour
			}
		}},
		{"context", func(n *yaml.Node) {
			d.mapping(n, "context", []field{
				{"summarize_at", func(n *yaml.Node) {
					p.Context.SummarizeAt = int(d.integer(n, "context.summarize_at", 4_000, 1_000_000))
				}},
				{"memory_tokens", func(n *yaml.Node) {
					p.Context.MemoryTokens = int(d.integer(n, "context.memory_tokens", 0, 20_000))
				}},
				{"patterns", func(n *yaml.Node) { p.Context.Patterns = d.flag(n, "context.patterns") }},
				{"summary_model", func(n *yaml.Node) { p.Context.SummaryModel = d.otherModel(n, "context.summary_model") }},
			})
		}},
		{"tools", func(n *yaml.Node) { p.Tools = d.list(n, "tools", 200, d.tool) }},
		{"mcp", func(n *yaml.Node) { p.MCP = d.mcp(n) }},
		{"agents", func(n *yaml.Node) { named = d.agents(n, &p.Agents) }},
		{"trust", func(n *yaml.Node) {
			p.Trust = Trust(d.choice(n, "trust", []string{string(Trusted), string(Verified), string(Untrusted)}))
		}},
		{"mode", func(n *yaml.Node) { p.Mode = d.mode(n) }},
		{"approvals", func(n *yaml.Node) { asked = d.approvals(n, &p.Approvals) }},
		{"limits", func(n *yaml.Node) { d.limits(n, &p.Limits) }},
		{"nodes", func(n *yaml.Node) { d.nodes(n, &p.Nodes) }},
		{"workspace", func(n *yaml.Node) { d.workspace(n, &p.Workspace) }},
		{"jail", func(n *yaml.Node) { d.jail(n, &p.Jail) }},
		{"egress", func(n *yaml.Node) { p.Egress = egressDecoder{&d.reader}.egress(n) }},
		{"credentials", func(n *yaml.Node) { p.Credentials = d.credentials(n) }},
		{"hub_access", func(n *yaml.Node) { p.HubAccess = d.flag(n, "hub_access") }},
		{"triggers", func(n *yaml.Node) { p.Triggers = triggerDecoder{&d.reader}.triggers(n) }},
		{"offline_grace", func(n *yaml.Node) {
			p.OfflineGrace = d.duration(n, "offline_grace")
			if p.OfflineGrace > 0 && p.OfflineGrace < leastGrace {
				d.problems.add(n.Line, "offline_grace is %s: it must be at least %s, since a node hears of its hub every few seconds only", p.OfflineGrace, leastGrace)
			}
		}},
		{"jobs", func(n *yaml.Node) {
			d.mapping(n, "jobs", []field{{"max_time", func(n *yaml.Node) {
				p.Jobs.MaxTime = d.duration(n, "jobs.max_time")
				if t := p.Jobs.MaxTime; t > 0 && (t < time.Minute || t > 24*time.Hour) {
					d.problems.add(n.Line, "jobs.max_time is %s: use 1m to 24h", t)
				}
			}}})
		}},
		{"checkpoints", func(n *yaml.Node) {
			p.Checkpoints = Checkpoints(d.choice(n, "checkpoints", []string{string(EachIteration), string(EachStep), string(OnRisk)}))
		}},
		{"browser", func(n *yaml.Node) {
			d.mapping(n, "browser", []field{{"record", func(n *yaml.Node) { p.Browser.Record = d.flag(n, "browser.record") }}})
		}},
		{"output_limit", func(n *yaml.Node) { p.OutputBytes = d.size(n, "output_limit", 1<<20) }},
		{"host", func(n *yaml.Node) { hostOf(d, n, &p.Host) }},
	})
	d.require(root, met, map[string]string{
		"name":        "name: and a name such as log-triage",
		"description": "description: and one line that says what the agent is for",
		"provider":    "provider: and the model family, such as anthropic or script",
		"tools":       "tools: and a list of the tools that the agent may use, such as [shell_exec, complete_task]",
	})
	d.provider(met, p)
	d.reached(&p.Egress)
	d.usedCredentials(p)
	usedHost(d, met, p)
	if p.Workspace.RestoreOnFailure == BeforeRisk && p.Checkpoints != OnRisk {
		d.problems.add(met["workspace"], "workspace.restore_on_failure is %s, which no rule makes: add checkpoints: %s, or name another checkpoint", quote(BeforeRisk), OnRisk)
	}
	for _, n := range named {
		switch {
		case n.Value == p.Name:
			d.problems.add(n.Line, "agents names %s itself: remove it; with the tool create_subtask an agent gives subtasks to itself", quote(n.Value))
		case d.known.Agents != nil && !slices.Contains(d.known.Agents, n.Value):
			d.problems.add(n.Line, "there is no agent %s: %s, or apply its file first or in the same command", quote(n.Value), suggest(n.Value, d.known.Agents))
		}
	}
	for _, t := range p.Triggers {
		if d.known.Trigger == nil || d.problems.err() != nil {
			break // what is wrong otherwise comes first
		}
		if err := d.known.Trigger(p, t); err != nil {
			d.problems.add(t.Line, "triggers, %s: %s", t.Name, err)
		}
	}
	for _, n := range asked {
		if met["tools"] != 0 && n.Value != toolname.CompleteTask && !slices.Contains(p.Tools, n.Value) && p.MCPServerOf(n.Value) == nil {
			d.problems.add(n.Line, "approvals.tools has %s, which tools does not list: add it there, or remove it here", quote(n.Value))
		}
	}
}

// provider checks what depends on the provider.
func (d *decoder) provider(met map[string]int, p *Persona) {
	switch {
	case p.Provider == ProviderScript:
		if met["script"] == 0 {
			d.problems.add(met["provider"], "script is missing: with provider script, write script: and the name of a YAML file beside the persona")
		}
		for _, key := range []string{"model", "fallbacks", "max_tokens", "thinking"} {
			if met[key] != 0 {
				d.problems.add(met[key], "%s does nothing with provider script: remove it", key)
			}
		}
		if p.Context.SummaryModel != (Fallback{}) {
			d.problems.add(met["context"], "context.summary_model does nothing with provider script: remove it")
		}
		p.Model = "scripted"
	case p.Provider != "":
		if met["model"] == 0 {
			d.problems.add(met["provider"], "model is missing: write model: and the provider's name of the model")
		}
		if met["script"] != 0 {
			d.problems.add(met["script"], "script goes with provider script only: remove it, or write provider: script")
		}
	}
	for _, f := range p.Fallbacks {
		if f == (Fallback{p.Provider, p.Model}) {
			d.problems.add(met["fallbacks"], "fallbacks has %s of %s, which is the model itself: remove it", quote(f.Model), f.Provider)
		}
	}
	if p.Thinking.Tokens > 0 && p.Thinking.Tokens >= p.MaxTokens {
		d.problems.add(met["thinking"], "thinking is %d: it must be less than max_tokens (%d)", p.Thinking.Tokens, p.MaxTokens)
	}
}

// maxFallbacks is how many models may take the place of one.
const maxFallbacks = 5

// fallbacks reads the models that take the place of the first.
func (d *decoder) fallbacks(n *yaml.Node) []Fallback {
	if n.Kind != yaml.SequenceNode || len(n.Content) > maxFallbacks {
		d.problems.add(n.Line, "fallbacks must be a list of at most %d models, such as [{provider: openai, model: gpt-5}]", maxFallbacks)
		return nil
	}
	var out []Fallback
	for _, item := range n.Content {
		f := d.otherModel(item, "fallbacks")
		if slices.Contains(out, f) {
			d.problems.add(item.Line, "fallbacks has %s of %s twice: keep one", quote(f.Model), f.Provider)
		}
		out = append(out, f)
	}
	return out
}

// otherModel reads a model besides the first.
func (d *decoder) otherModel(n *yaml.Node, key string) Fallback {
	var f Fallback
	met := d.mapping(n, key, []field{
		{"provider", func(n *yaml.Node) {
			if f.Provider = d.choice(n, key+".provider", d.known.Providers); f.Provider == ProviderScript {
				d.problems.add(n.Line, "%s has provider script, which takes nobody's place: remove it", key)
			}
		}},
		{"model", func(n *yaml.Node) { f.Model = d.text(n, key+".model", 128) }},
	})
	if n.Kind == yaml.MappingNode {
		d.require(n, met, map[string]string{
			"provider": "provider: and the model family, such as openai", "model": "model: and the provider's name of the model",
		})
	}
	return f
}

func (d *decoder) tool(n *yaml.Node, value string) {
	if d.known.Tools != nil && !slices.Contains(d.known.Tools, value) {
		d.problems.add(n.Line, "unknown tool %s: %s", quote(value), suggest(value, d.known.Tools))
	}
}

func (d *decoder) thinking(n *yaml.Node) Thinking {
	if n.Kind == yaml.ScalarNode && n.Value == "adaptive" {
		return Thinking{Adaptive: true}
	}
	var tokens int
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&tokens) != nil || tokens < 1024 || tokens > 128_000 {
		d.problems.add(n.Line, "thinking must be adaptive, or a number of tokens from 1024 to 128000 for models that want a budget")
		return Thinking{}
	}
	return Thinking{Tokens: tokens}
}

func (d *decoder) mode(n *yaml.Node) Mode {
	value := d.choice(n, "mode", []string{string(Autonomous), string(Supervised), string(Review)})
	if value != "" && d.known.Modes != nil && !slices.Contains(d.known.Modes, value) {
		d.problems.add(n.Line, "mode %s is not to be had here yet: write %s", value, strings.Join(d.known.Modes, " or "))
	}
	return Mode(value)
}

// approvals parses when approval is required, and returns the nodes of the
// tools' names.
func (d *decoder) approvals(n *yaml.Node, a *Approvals) (tools []*yaml.Node) {
	d.mapping(n, "approvals", []field{
		{"tools", func(n *yaml.Node) {
			a.Tools = d.list(n, "approvals.tools", 200, func(n *yaml.Node, _ string) { tools = append(tools, n) })
		}},
		{"categories", func(n *yaml.Node) {
			a.Categories = d.list(n, "approvals.categories", 3, func(n *yaml.Node, value string) {
				if !slices.Contains(categories, value) {
					d.problems.add(n.Line, "approvals.categories has %s: %s", quote(value), suggest(value, categories))
				}
			})
		}},
		{"timeout", func(n *yaml.Node) { a.Timeout = d.duration(n, "approvals.timeout") }},
		{"on_timeout", func(n *yaml.Node) {
			a.OnTimeout = OnTimeout(d.choice(n, "approvals.on_timeout", []string{string(RejectCall), string(StopTask)}))
		}},
	})
	return tools
}

// MaxFiles is the highest limit of the files that a run changes.
const MaxFiles = 1_000_000

// MaxDepth is the deepest tree of subtasks that a persona may allow.
const MaxDepth = 32

// agents parses which agents the agent may work with, and returns the nodes of
// their names.
func (d *decoder) agents(n *yaml.Node, a *Agents) (named []*yaml.Node) {
	names := func(key string) func(n *yaml.Node, value string) {
		return func(n *yaml.Node, value string) {
			named = append(named, n)
			if !agentName.MatchString(value) {
				d.problems.add(n.Line, "%s has %s: use an agent's name as `deckhand agent list` shows it", key, quote(value))
			}
		}
	}
	d.mapping(n, "agents", []field{
		{"delegate", func(n *yaml.Node) { a.Delegate = d.list(n, "agents.delegate", 100, names("agents.delegate")) }},
		{"handoff", func(n *yaml.Node) { a.Handoff = d.list(n, "agents.handoff", 100, names("agents.handoff")) }},
		{"rounds", func(n *yaml.Node) { a.Rounds = int(d.integer(n, "agents.rounds", 1, 50)) }},
	})
	return named
}

// categories say how much harm a tool can do.
var categories = []string{"safe", "moderate", "dangerous"}

func (d *decoder) limits(n *yaml.Node, l *Limits) {
	d.mapping(n, "limits", []field{
		{"iterations", func(n *yaml.Node) { l.Iterations = int(d.integer(n, "limits.iterations", 1, 1000)) }},
		{"active_time", func(n *yaml.Node) { l.ActiveTime = d.duration(n, "limits.active_time") }},
		{"tokens", func(n *yaml.Node) { l.Tokens = d.integer(n, "limits.tokens", 1, 1_000_000_000) }},
		{"calls", func(n *yaml.Node) { l.Calls = d.integer(n, "limits.calls", 1, 100_000) }},
		{"cost_usd", func(n *yaml.Node) { l.CostUSD = d.decimal(n, "limits.cost_usd", 0, 1_000_000) }},
		{"files", func(n *yaml.Node) { l.Files = d.integer(n, "limits.files", 1, MaxFiles) }},
		{"file_size", func(n *yaml.Node) { l.FileSize = d.size(n, "limits.file_size", 1<<20) }},
		{"subtasks", func(n *yaml.Node) { l.Subtasks = int(d.integer(n, "limits.subtasks", 0, 1000)) }},
		{"depth", func(n *yaml.Node) { l.Depth = int(d.integer(n, "limits.depth", 0, MaxDepth)) }},
		{"on_limit", func(n *yaml.Node) {
			l.OnLimit = OnLimit(d.choice(n, "limits.on_limit", []string{string(PauseAtLimit), string(StopAtLimit)}))
		}},
		{"failures", func(n *yaml.Node) { l.Failures = int(d.integer(n, "limits.failures", 2, 100)) }},
		{"outage", func(n *yaml.Node) {
			l.Outage = d.duration(n, "limits.outage")
			if l.Outage > 0 && (l.Outage < time.Minute || l.Outage > 168*time.Hour) {
				d.problems.add(n.Line, "limits.outage is %s: use 1m to 168h", l.Outage)
			}
		}},
	})
}

func (d *decoder) nodes(n *yaml.Node, out *Nodes) {
	d.mapping(n, "nodes", []field{
		{"names", func(n *yaml.Node) {
			out.Names = d.list(n, "nodes.names", 100, func(n *yaml.Node, value string) {
				if !nodeName.MatchString(value) {
					d.problems.add(n.Line, "nodes.names has %s: use a node's name as `deckhand node list` shows it", quote(value))
				}
			})
		}},
		{"labels", func(n *yaml.Node) { out.Labels = d.labels(n, "nodes.labels") }},
	})
}

func (d *decoder) workspace(n *yaml.Node, w *Workspace) {
	d.mapping(n, "workspace", []field{
		{"scope", func(n *yaml.Node) {
			w.Scope = Scope(d.choice(n, "workspace.scope", []string{string(ScopeAgent), string(ScopeTask)}))
		}},
		{"size", func(n *yaml.Node) { w.SizeBytes = d.size(n, "workspace.size", 1<<20) }},
		{"keep_jobs", func(n *yaml.Node) { w.KeepJobs = d.flag(n, "workspace.keep_jobs") }},
		{"restore_on_failure", func(n *yaml.Node) { w.RestoreOnFailure = d.text(n, "workspace.restore_on_failure", 100) }},
		{"git", func(n *yaml.Node) { w.Git = d.checkout(n) }},
	})
	if w.KeepJobs && w.Scope == ScopeTask {
		d.problems.add(n.Line, "workspace.keep_jobs needs a workspace that lasts: write scope: agent, or remove keep_jobs")
	}
}

func (d *decoder) jail(n *yaml.Node, j *Jail) {
	met := d.mapping(n, "jail", []field{
		{"image", func(n *yaml.Node) { j.Image = d.image(n) }},
		{"root", func(n *yaml.Node) {
			j.WritableRoot = d.choice(n, "jail.root", []string{readOnlyRoot, writableRoot}) == writableRoot
		}},
		{"user", func(n *yaml.Node) {
			j.RootUser = d.choice(n, "jail.user", []string{agentUser, rootUser}) == rootUser
		}},
		{"setup", func(n *yaml.Node) { j.Setup = d.setup(n) }},
		{"setup_egress", func(n *yaml.Node) { j.SetupEgress = egressDecoder{&d.reader}.egress(n) }},
		{"cpus", func(n *yaml.Node) { j.CPUMillis = int64(d.decimal(n, "jail.cpus", 0.01, 1024)*1000 + 0.5) }},
		{"memory", func(n *yaml.Node) { j.MemoryBytes = d.size(n, "jail.memory", 32<<20) }},
		{"max_memory", func(n *yaml.Node) { j.MaxMemoryBytes = d.size(n, "jail.max_memory", 32<<20) }},
		{"pids", func(n *yaml.Node) { j.PIDs = d.integer(n, "jail.pids", 8, 4_000_000) }},
		{"tmp", func(n *yaml.Node) { j.TmpBytes = d.size(n, "jail.tmp", 1<<20) }},
		{"read_only_paths", func(n *yaml.Node) {
			j.ReadOnlyPaths = d.list(n, "jail.read_only_paths", 32, func(n *yaml.Node, value string) {
				if !path.IsAbs(value) || path.Clean(value) != value || value == "/" {
					d.problems.add(n.Line, "jail.read_only_paths has %s: write an absolute folder of the machine without .. or a trailing slash, such as /var/log", quote(value))
				}
			})
		}},
	})
	if j.Image == "" {
		for _, key := range []string{"root", "user", "setup", "setup_egress"} {
			if line := met[key]; line != 0 {
				d.problems.add(line, "jail.%s needs a container image: write jail.image, such as docker.io/library/debian:12", key)
			}
		}
	}
	if line := met["setup_egress"]; line != 0 && met["setup"] == 0 {
		d.problems.add(line, "jail.setup_egress has no jail.setup: add the commands, or remove it")
	}
	if line := met["max_memory"]; line != 0 && j.MaxMemoryBytes != 0 && j.MaxMemoryBytes < j.MemoryBytes {
		d.problems.add(line, "jail.max_memory is less than jail.memory (%d MiB): give at least as much, or leave it out", j.MemoryBytes>>20)
	}
}

// The values of jail.root and jail.user.
const (
	readOnlyRoot, writableRoot = "read-only", "writable"
	agentUser, rootUser        = "agent", "root"
)

const (
	maxSetupLines = 50
	maxSetupLine  = 8 << 10
)

// setup returns the commands of jail.setup, of which two may be the same.
func (d *decoder) setup(n *yaml.Node) (out []string) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > maxSetupLines {
		d.problems.add(n.Line, "jail.setup must be a list of 1 to %d commands, such as [apt-get update, apt-get install -y git]", maxSetupLines)
		return nil
	}
	for _, item := range n.Content {
		line := d.text(item, "jail.setup", maxSetupLine)
		if strings.TrimSpace(line) == "" {
			d.problems.add(item.Line, "jail.setup has an empty command: remove it")
			continue
		}
		out = append(out, line)
	}
	return out
}

// DevcontainerImage is what jail.image says for the image that the workspace's
// devcontainer.json names.
const DevcontainerImage = "devcontainer"

// hostImage is what jail.image says for the machine's own system folders.
const hostImage = "host"

// image returns the reference of an image; empty for hostImage.
func (d *decoder) image(n *yaml.Node) string {
	text := d.text(n, "jail.image", 512)
	switch text {
	case hostImage, "":
		return ""
	case DevcontainerImage:
		return text
	}
	if _, err := imageref.Parse(text); err != nil {
		d.problems.add(n.Line, "jail.image has %s: %s; %q shows the machine's own system folders, and %q takes the image of the workspace's devcontainer.json", quote(text), fault.As(err).Fix, hostImage, DevcontainerImage)
	}
	return text
}

func (d *reader) labels(n *yaml.Node, key string) map[string]string {
	if n.Kind != yaml.MappingNode || len(n.Content) > 2*64 {
		d.problems.add(n.Line, "%s must be at most 64 keys and values, such as role: web", key)
		return nil
	}
	out := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := d.text(n.Content[i], key, 128)
		if _, twice := out[name]; twice {
			d.problems.add(n.Content[i].Line, "%s.%s is given twice: keep one", key, name)
		}
		// A label's value is a string even if YAML parses it differently: 1,
		// true, null.
		value := n.Content[i+1]
		if value.Kind != yaml.ScalarNode || len(value.Value) > 128 {
			d.problems.add(value.Line, "%s.%s must be one word of at most 128 bytes", key, name)
			continue
		}
		out[name] = value.Value
	}
	return out
}

// most is the largest size that is taken.
const most = 1 << 50

func (d *reader) size(n *yaml.Node, key string, least int64) int64 {
	bytes, ok := int64(0), false
	if n.Kind == yaml.ScalarNode {
		bytes, ok = bytesize.Parse(n.Value)
	}
	switch {
	case !ok:
		d.problems.add(n.Line, "%s must be a size with its unit, such as 512MiB or 4GiB", key)
	case bytes < least || bytes > most:
		d.problems.add(n.Line, "%s is %s: it must be between %d MiB and %d TiB", key, n.Value, least>>20, most>>40)
	default:
		return bytes
	}
	return 0
}
