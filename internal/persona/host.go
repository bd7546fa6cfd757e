package persona

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// Host says on which machines an agent may work outside of its jail, and on what there. An
// administrator still decides each time before a machine is locked for it.
type Host struct {
	// Nodes are names of nodes, or labels as KEY=VALUE; a node must match one of them.
	Nodes []string
	// Paths are absolute folders of the machine. They are recorded before each command, so
	// that its changes can be undone, and the tools for files on the machine are confined to
	// them.
	Paths []string
	// Commands are patterns of commands that nobody is asked about while the machine is
	// locked, by words: "systemctl reload *". An administrator is asked about all others.
	Commands []string
}

// Set reports whether the agent may work on any machine.
func (h Host) Set() bool { return len(h.Nodes) > 0 }

// Allows reports whether the agent may work on a node with a name and labels.
func (h Host) Allows(name string, labels map[string]string) bool {
	return slices.ContainsFunc(h.Nodes, func(text string) bool { return Selects(text, name, labels) })
}

// Selects reports whether a text that is a node's name, or a label as KEY=VALUE, means a node.
func Selects(text, name string, labels map[string]string) bool {
	key, value, isLabel := strings.Cut(text, "=")
	if !isLabel {
		return text == name
	}
	have, ok := labels[key]
	return ok && have == value
}

// Folder returns the folder of Paths that a file is in, and its path below it; false if it is
// in none.
func (h Host) Folder(file string) (folder, rel string, ok bool) {
	file = path.Clean(file)
	for _, dir := range h.Paths {
		if rest, below := strings.CutPrefix(file, dir+"/"); below {
			return dir, rest, true
		}
		if file == dir {
			return dir, ".", true
		}
	}
	return "", "", false
}

const (
	maxHostNodes    = 100
	maxHostPaths    = 32
	maxHostCommands = 200
)

// noHostPaths are folders that cannot be recorded, or that hold the kernel's own files.
var noHostPaths = []string{"/proc", "/sys", "/dev", "/run"}

// hostOf reads host.
func hostOf(d *decoder, n *yaml.Node, h *Host) {
	met := d.mapping(n, "host", []field{
		{"nodes", func(n *yaml.Node) {
			h.Nodes = d.list(n, "host.nodes", maxHostNodes, func(n *yaml.Node, value string) {
				key, label, isLabel := strings.Cut(value, "=")
				if isLabel && (key == "" || label == "" || len(value) > 257) || !isLabel && !nodeName.MatchString(value) {
					d.problems.add(n.Line, "host.nodes has %s: write a node's name as `deckhand node list` shows it, or a label as key=value", quote(value))
				}
			})
		}},
		{"paths", func(n *yaml.Node) {
			h.Paths = d.list(n, "host.paths", maxHostPaths, func(n *yaml.Node, value string) {
				switch {
				case !path.IsAbs(value) || path.Clean(value) != value || value == "/":
					d.problems.add(n.Line, "host.paths has %s: write an absolute folder of the machine without .. or a trailing slash, such as /etc/nginx", quote(value))
				case slices.ContainsFunc(noHostPaths, func(dir string) bool { return value == dir || strings.HasPrefix(value, dir+"/") }):
					d.problems.add(n.Line, "host.paths has %s, whose files cannot be recorded: name a folder with files on a disk, such as /etc/nginx", quote(value))
				case len(value) > 1024:
					d.problems.add(n.Line, "host.paths has a path of %d bytes: use at most 1024", len(value))
				}
			})
		}},
		{"commands", func(n *yaml.Node) {
			h.Commands = d.list(n, "host.commands", maxHostCommands, func(n *yaml.Node, value string) {
				words := strings.Fields(value)
				if len(words) == 0 || strings.ContainsAny(value, "\n|;&<>$`") || strings.ContainsAny(words[0], "*?") {
					d.problems.add(n.Line, "host.commands has %s: write the first words of one command, with * for a word that may differ, such as systemctl reload *", quote(value))
				}
			})
		}},
	})
	if met["nodes"] == 0 || len(h.Nodes) == 0 {
		d.problems.add(n.Line, "host.nodes is missing: name the nodes on whose machines the agent may work, such as [web-1] or [role=web]")
	}
	for i, dir := range h.Paths {
		for _, other := range h.Paths[:i] {
			if strings.HasPrefix(dir, other+"/") || strings.HasPrefix(other, dir+"/") {
				d.problems.add(met["paths"], "host.paths has %s and %s, one of which contains the other: keep the outer one", quote(other), quote(dir))
			}
		}
	}
}

// hostTools are the tools that do nothing for an agent that may work on no machine.
var hostTools = []string{toolname.NodeLock, toolname.NodeUnlock, toolname.HostExec, toolname.HostRead, toolname.HostWrite, toolname.NodeExecMany}

// usedHost checks that tools and host go together.
func usedHost(d *decoder, met map[string]int, p *Persona) {
	if met["tools"] == 0 {
		return
	}
	if met["host"] == 0 {
		for _, name := range p.Tools {
			if slices.Contains(hostTools, name) {
				d.problems.add(met["tools"], "tools has %s, which works on a machine itself: add host: {nodes: [NAME]}, or remove the tool", name)
			}
		}
		return
	}
	if !slices.ContainsFunc(p.Tools, func(name string) bool { return slices.Contains(hostTools, name) }) {
		d.problems.add(met["host"], "host does nothing: list tools that work on machines, such as %s and %s, or remove host", toolname.NodeLock, toolname.HostExec)
	}
	for _, name := range []string{toolname.HostExec, toolname.HostRead, toolname.HostWrite} {
		if slices.Contains(p.Tools, name) && !slices.Contains(p.Tools, toolname.NodeLock) {
			d.problems.add(met["tools"], "tools has %s, which works under a lock: add %s", name, toolname.NodeLock)
		}
	}
	if len(p.Host.Paths) == 0 && (slices.Contains(p.Tools, toolname.HostRead) || slices.Contains(p.Tools, toolname.HostWrite)) {
		d.problems.add(met["host"], "host.paths is missing: the tools %s and %s work in the folders that it names", toolname.HostRead, toolname.HostWrite)
	}
}
