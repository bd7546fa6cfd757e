package persona

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
)

// MCPServer is an MCP server that offers the agent tools. It runs beside the
// agent's commands in its jail, or elsewhere and is spoken with from there.
type MCPServer struct {
	// Name is the server's among those of the persona.
	Name string
	// Command is run in the workspace, with Env added to its environment as
	// NAME=value.
	Command []string
	Env     []string
	// URL is that of one elsewhere, instead of Command.
	URL string
	// Tools are the only ones that the agent may use, by the server's own names;
	// nil for all.
	Tools []string
	// Category of its tools: safe, moderate or dangerous.
	Category string
	// Timeout of one call.
	Timeout time.Duration
}

const (
	// MCPPrefix begins the names of all tools of MCP servers.
	MCPPrefix = "mcp__"
	// maxServers is how many servers a persona may name.
	maxServers        = 8
	defaultMCPTimeout = time.Minute
)

var (
	mcpName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$`)
	envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// MCPServerOf returns the server of a tool that the model calls by that name, or
// nil: of no server of this persona.
func (p *Persona) MCPServerOf(tool string) *MCPServer {
	rest, ok := strings.CutPrefix(tool, MCPPrefix)
	if !ok {
		return nil
	}
	name, _, _ := strings.Cut(rest, "__")
	for i := range p.MCP {
		if p.MCP[i].Name == name {
			return &p.MCP[i]
		}
	}
	return nil
}

// mcp reads the MCP servers.
func (d *decoder) mcp(n *yaml.Node) []MCPServer {
	if n.Kind != yaml.SequenceNode || len(n.Content) > maxServers {
		d.problems.add(n.Line, "mcp must be a list of at most %d servers, such as [{name: notes, command: [python3, notes.py]}]", maxServers)
		return nil
	}
	var out []MCPServer
	for _, item := range n.Content {
		s := MCPServer{Category: "moderate", Timeout: defaultMCPTimeout}
		met := d.mapping(item, "mcp", []field{
			{"name", func(n *yaml.Node) {
				if s.Name = d.text(n, "mcp.name", 20); s.Name != "" && !mcpName.MatchString(s.Name) {
					d.problems.add(n.Line, "mcp.name is %s: use lower-case letters, digits and dashes, beginning with a letter, at most 20", quote(s.Name))
				}
			}},
			{"command", func(n *yaml.Node) { s.Command = d.words(n, "mcp.command") }},
			{"url", func(n *yaml.Node) { s.URL = d.mcpURL(n) }},
			{"env", func(n *yaml.Node) { s.Env = d.env(n, "mcp.env") }},
			{"tools", func(n *yaml.Node) { s.Tools = d.list(n, "mcp.tools", 256, func(*yaml.Node, string) {}) }},
			{"category", func(n *yaml.Node) { s.Category = d.choice(n, "mcp.category", categories) }},
			{"timeout", func(n *yaml.Node) {
				if s.Timeout = d.duration(n, "mcp.timeout"); s.Timeout > time.Hour {
					d.problems.add(n.Line, "mcp.timeout is %s: at most 1h is allowed", s.Timeout)
				}
			}},
		})
		if item.Kind == yaml.MappingNode {
			d.require(item, met, map[string]string{"name": "name: and a short name for the server, such as notes"})
			switch {
			case (met["command"] == 0) == (met["url"] == 0):
				d.problems.add(item.Line, "mcp has a server with neither command nor url, or with both: write the program with its arguments, "+
					"such as command: [python3, notes.py], or where it is, such as url: https://mcp.example.com/mcp")
			case met["url"] != 0 && met["env"] != 0:
				d.problems.add(met["env"], "mcp.env is for a server that runs in the jail: remove it beside url")
			}
		}
		if slices.ContainsFunc(out, func(other MCPServer) bool { return other.Name == s.Name && s.Name != "" }) {
			d.problems.add(item.Line, "mcp has two servers named %s: give one another name", quote(s.Name))
		}
		out = append(out, s)
	}
	return out
}

// mcpURL reads where a server is.
func (d *decoder) mcpURL(n *yaml.Node) string {
	value := d.text(n, "mcp.url", 2048)
	if value == "" {
		return ""
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		d.problems.add(n.Line, "mcp.url is %s: write an address without a password, such as https://mcp.example.com/mcp", quote(value))
		return ""
	}
	d.servers = append(d.servers, n)
	return value
}

// reached reports the servers elsewhere that the persona's egress does not allow.
func (d *decoder) reached(list *allowlist.List) {
	for _, n := range d.servers {
		u, err := url.Parse(n.Value)
		if err != nil {
			continue // reported
		}
		port, method := uint16(443), allowlist.Opaque
		if u.Scheme == "http" {
			port, method = 80, "POST"
		}
		t, err := allowlist.ParseTarget(u.Host, port)
		if err != nil {
			d.problems.add(n.Line, "mcp.url: %s", err)
			continue
		}
		if refusal := list.Match(t, method); refusal != nil && !list.ByRequest(t) {
			d.problems.add(n.Line, "mcp.url leads to %s, which egress does not allow: write %s", t, refusal.Allow)
		}
	}
}

// words reads a command: its program and arguments, of which some may be the
// same.
func (d *decoder) words(n *yaml.Node, key string) []string {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > 64 {
		d.problems.add(n.Line, "%s must be a list of 1 to 64 words, such as [python3, notes.py]", key)
		return nil
	}
	var out []string
	for _, item := range n.Content {
		// An argument is a string even if YAML parses it differently: 1, true,
		// null.
		if item.Kind != yaml.ScalarNode || len(item.Value) > 4096 || strings.ContainsRune(item.Value, 0) {
			d.problems.add(item.Line, "%s has an entry that is no word of at most 4096 bytes", key)
			continue
		}
		out = append(out, item.Value)
	}
	if len(out) > 0 && out[0] == "" {
		d.problems.add(n.Line, "%s names no program", key)
	}
	return out
}

// env reads variables, and returns them as NAME=value in order.
func (d *decoder) env(n *yaml.Node, key string) []string {
	if n.Kind != yaml.MappingNode || len(n.Content) > 2*64 {
		d.problems.add(n.Line, "%s must be at most 64 names and values, such as LANG: C", key)
		return nil
	}
	values := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		switch _, twice := values[name.Value]; {
		case !envName.MatchString(name.Value):
			d.problems.add(name.Line, "%s has %s, which is no name of a variable", key, quote(name.Value))
		case twice:
			d.problems.add(name.Line, "%s.%s is given twice: keep one", key, name.Value)
		case value.Kind != yaml.ScalarNode || len(value.Value) > 4096 || strings.ContainsRune(value.Value, 0):
			d.problems.add(value.Line, "%s.%s must be one word of at most 4096 bytes", key, name.Value)
		default:
			values[name.Value] = value.Value
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, name+"="+values[name])
	}
	return out
}
