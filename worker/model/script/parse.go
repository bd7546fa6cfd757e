package script

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

const (
	maxScript = 1 << 20
	maxTurns  = 2000
	maxNodes  = 50_000
)

// The file's shape. Every part is decoded strictly: an unknown key is an error
// with its line.
type (
	fileYAML struct {
		Turns []yaml.Node `yaml:"turns"`
	}
	turnYAML struct {
		Name      string               `yaml:"name"`
		When      string               `yaml:"when"`
		Reasoning string               `yaml:"reasoning"`
		Text      string               `yaml:"text"`
		Calls     []yaml.Node          `yaml:"calls"`
		Capture   map[string]yaml.Node `yaml:"capture"`
		Usage     usageYAML            `yaml:"usage"`
		Stop      string               `yaml:"stop"`
		Next      string               `yaml:"next"`
		Delay     string               `yaml:"delay"`
	}
	callYAML struct {
		Tool         string         `yaml:"tool"`
		Arguments    map[string]any `yaml:"arguments"`
		RawArguments string         `yaml:"raw_arguments"`
	}
	captureYAML struct {
		Pattern string  `yaml:"pattern"`
		Default *string `yaml:"default"`
	}
	usageYAML struct {
		InputTokens      int64 `yaml:"input_tokens"`
		OutputTokens     int64 `yaml:"output_tokens"`
		CacheReadTokens  int64 `yaml:"cache_read_tokens"`
		CacheWriteTokens int64 `yaml:"cache_write_tokens"`
	}
)

// Parse reads a script. file is used in messages only. The error names every
// problem with its line.
func Parse(file string, data []byte) (*Script, error) {
	if len(data) > maxScript {
		return nil, fmt.Errorf("%s: the script has %d bytes: at most %d are allowed", file, len(data), maxScript)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s:1: the script is empty: write turns: and a list of turns", file)
		}
		return nil, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: the script holds more than one YAML document: keep one", file)
	}
	p := &parser{file: file}
	nodes := 0
	if line := aliasLine(&doc, &nodes, 0); line > 0 || nodes > maxNodes {
		return nil, fmt.Errorf("%s:%d: YAML anchors, aliases and very deep or large scripts are not allowed", file, max(line, 1))
	}
	script := p.script(doc.Content[0])
	if len(p.problems) > 0 {
		return nil, errors.New(strings.Join(p.problems, "\n"))
	}
	return script, nil
}

// aliasLine returns the line of the first anchor, alias or too deep node.
func aliasLine(n *yaml.Node, nodes *int, depth int) int {
	*nodes++
	if n.Kind == yaml.AliasNode || n.Anchor != "" || depth > 32 {
		return max(n.Line, 1)
	}
	for _, child := range n.Content {
		if line := aliasLine(child, nodes, depth+1); line > 0 {
			return line
		}
	}
	return 0
}

type parser struct {
	file     string
	problems []string
}

func (p *parser) add(line int, format string, args ...any) {
	if len(p.problems) < 50 {
		p.problems = append(p.problems, fmt.Sprintf("%s:%d: %s", p.file, line, fmt.Sprintf(format, args...)))
	}
}

// decode reads a mapping strictly.
func (p *parser) decode(n *yaml.Node, what string, keys []string, into any) bool {
	if n.Kind != yaml.MappingNode {
		p.add(n.Line, "%s must be keys and values: %s", what, strings.Join(keys, ", "))
		return false
	}
	ok := true
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(keys, key.Value) {
			p.add(key.Line, "unknown key %q in %s: the keys are %s", key.Value, what, strings.Join(keys, ", "))
			ok = false
		}
	}
	if !ok {
		return false
	}
	if err := n.Decode(into); err != nil {
		var typed *yaml.TypeError
		if errors.As(err, &typed) {
			for _, e := range typed.Errors {
				p.problems = append(p.problems, fmt.Sprintf("%s: %s", p.file, e))
			}
		} else {
			p.add(n.Line, "%s: %s", what, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		return false
	}
	return true
}

func (p *parser) script(root *yaml.Node) *Script {
	var file fileYAML
	if !p.decode(root, "the script", []string{"turns"}, &file) {
		return nil
	}
	if len(file.Turns) == 0 || len(file.Turns) > maxTurns {
		p.add(root.Line, "turns must be a list of 1 to %d turns", maxTurns)
		return nil
	}
	s := &Script{file: p.file, byName: map[string]int{}}
	for i := range file.Turns {
		t := p.turn(&file.Turns[i])
		if _, twice := s.byName[t.name]; twice && t.name != "" {
			p.add(t.line, "two turns are named %q: rename one", t.name)
		}
		s.byName[t.name] = i
		s.turns = append(s.turns, t)
		for _, c := range t.calls {
			if !slices.Contains(s.tools, c.tool) {
				s.tools = append(s.tools, c.tool)
			}
		}
	}
	p.check(s)
	return s
}

// check looks at what spans turns: jumps and references.
func (p *parser) check(s *Script) {
	var captured []string
	for _, t := range s.turns {
		for _, c := range t.captures {
			captured = append(captured, c.name)
		}
	}
	for _, t := range s.turns {
		if t.next != "" {
			if _, ok := s.byName[t.next]; !ok {
				p.add(t.line, "next is %q: no turn has that name", t.next)
			}
		}
		used := append(references(t.text), references(t.reasoning)...)
		for _, c := range t.calls {
			used = append(used, references(c.arguments)...)
		}
		for _, name := range used {
			if !slices.Contains(captured, name) {
				p.add(t.line, "${%s} is captured nowhere: add it under capture, or write $${%s} for the text itself", name, name)
			}
		}
	}
}

var captureName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (p *parser) turn(n *yaml.Node) turn {
	var y turnYAML
	if !p.decode(n, "a turn", []string{
		"name", "when", "reasoning", "text", "calls", "capture", "usage", "stop", "next", "delay",
	}, &y) {
		return turn{line: n.Line}
	}
	t := turn{
		line: n.Line, name: y.Name, reasoning: strings.TrimSpace(y.Reasoning), text: strings.TrimSpace(y.Text),
		stop: y.Stop, next: y.Next,
		usage: &deckhandv1.Usage{
			InputTokens: y.Usage.InputTokens, OutputTokens: y.Usage.OutputTokens,
			CacheReadTokens: y.Usage.CacheReadTokens, CacheWriteTokens: y.Usage.CacheWriteTokens,
		},
	}
	if min(y.Usage.InputTokens, y.Usage.OutputTokens, y.Usage.CacheReadTokens, y.Usage.CacheWriteTokens) < 0 {
		p.add(n.Line, "usage must not be negative")
	}
	if y.When != "" {
		t.when = p.pattern(n.Line, "when", y.When, 0)
	}
	if y.Delay != "" {
		d, err := time.ParseDuration(y.Delay)
		if err != nil || d < 0 || d > 10*time.Minute {
			p.add(n.Line, "delay is %q: write a time up to 10m, such as 500ms", y.Delay)
		}
		t.delay = d
	}
	switch t.stop {
	case "", model.StopEndTurn, model.StopToolUse, model.StopMaxTokens, model.StopRefusal:
	default:
		p.add(n.Line, "stop is %q: write end_turn, tool_use, max_tokens or refusal", t.stop)
	}
	for i := range y.Calls {
		t.calls = append(t.calls, p.call(&y.Calls[i]))
	}
	for name, value := range y.Capture {
		t.captures = append(t.captures, p.capture(name, &value))
	}
	slices.SortFunc(t.captures, func(a, b capture) int { return strings.Compare(a.name, b.name) })
	return t
}

func (p *parser) call(n *yaml.Node) call {
	var y callYAML
	if !p.decode(n, "a call", []string{"tool", "arguments", "raw_arguments"}, &y) {
		return call{line: n.Line}
	}
	switch {
	case y.Tool == "":
		p.add(n.Line, "tool is missing: write tool: and the name of a tool")
	case y.Arguments != nil && y.RawArguments != "":
		p.add(n.Line, "a call has arguments or raw_arguments, not both")
	case y.Arguments == nil:
		y.Arguments = map[string]any{}
	}
	return call{line: n.Line, tool: y.Tool, arguments: y.Arguments, raw: y.RawArguments}
}

func (p *parser) capture(name string, n *yaml.Node) capture {
	if !captureName.MatchString(name) {
		p.add(n.Line, "capture %q: use letters, digits and underscores", name)
	}
	if n.Kind == yaml.ScalarNode {
		return capture{line: n.Line, name: name, pattern: p.pattern(n.Line, "capture "+name, n.Value, 1)}
	}
	var y captureYAML
	if !p.decode(n, "capture "+name, []string{"pattern", "default"}, &y) {
		return capture{line: n.Line, name: name}
	}
	return capture{line: n.Line, name: name, pattern: p.pattern(n.Line, "capture "+name, y.Pattern, 1), fallback: y.Default}
}

// pattern compiles a regular expression with exactly as many groups as wanted;
// 0 for any number.
func (p *parser) pattern(line int, what, text string, groups int) *regexp.Regexp {
	re, err := regexp.Compile(text)
	if err != nil {
		p.add(line, "%s: %s", what, err)
		return nil
	}
	if groups > 0 && re.NumSubexp() != groups {
		p.add(line, "%s: put exactly one group in parentheses around what to keep ((?:…) does not count)", what)
	}
	return re
}
