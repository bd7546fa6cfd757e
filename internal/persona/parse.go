package persona

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/deckhand-sh/deckhand/internal/textcut"
)

const (
	// maxFile bounds a persona file, maxFrontMatter its YAML.
	maxFile        = 1 << 20
	maxFrontMatter = 64 << 10
)

// Parse reads a persona file. filename is used in messages only. The error is
// a *Problems.
func Parse(filename string, data []byte, known Vocabulary) (*Persona, error) {
	if filename == "" {
		filename = "persona.md"
	}
	d := &decoder{reader: reader{problems: &Problems{File: filename}, known: known}}
	p := defaults()
	front, body, ok := d.split(data)
	if !ok {
		return nil, d.problems.err()
	}
	root := d.document(front)
	if root == nil {
		return nil, d.problems.err()
	}
	d.persona(root, p)
	p.Jail.MaxMemoryBytes = max(p.Jail.MaxMemoryBytes, p.Jail.MemoryBytes)
	p.Prompt = strings.TrimSpace(body)
	if p.Prompt == "" {
		d.problems.add(bytes.Count(data, []byte("\n"))+1,
			"the body is empty: below the second --- line write the agent's instructions in Markdown")
	}
	if err := d.problems.err(); err != nil {
		return nil, err
	}
	return p, nil
}

// reader reads single values and mappings, and collects the problems of one file.
type reader struct {
	problems *Problems
	known    Vocabulary
}

// decoder reads a persona, block by block. Those with a type of their own are egress and
// triggers.
type decoder struct {
	reader
	servers []*yaml.Node // of mcp.url
	// checkedOut is that of workspace.git.credential.
	checkedOut *yaml.Node
}

// split returns the front matter, with its first line kept empty so that line
// numbers are the file's, and the body.
func (d *reader) split(data []byte) (front []byte, body string, ok bool) {
	switch {
	case len(data) > maxFile:
		d.problems.add(1, "the file has %d bytes: at most %d are allowed", len(data), maxFile)
		return nil, "", false
	case !utf8.Valid(data):
		d.problems.add(1+bytes.Count(data[:firstInvalid(data)], []byte("\n")), "the file is not UTF-8: save it as UTF-8")
		return nil, "", false
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != "---" {
		d.problems.add(1, "the file must begin with a line of three dashes (---), then YAML front matter, then another such line")
		return nil, "", false
	}
	var lines strings.Builder
	lines.WriteString("\n")
	for line := range strings.Lines(rest) {
		if strings.TrimRight(line, " \t\n") == "---" {
			return []byte(lines.String()), rest[lines.Len()-1+len(line):], true
		}
		lines.WriteString(line)
		if lines.Len() > maxFrontMatter {
			d.problems.add(1, "the front matter is longer than %d bytes: end it with a line of three dashes (---) and put instructions into the body", maxFrontMatter)
			return nil, "", false
		}
	}
	d.problems.add(1, "the front matter does not end: put a line of three dashes (---) below it")
	return nil, "", false
}

func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// document returns the front matter's top mapping, or nil.
func (d *reader) document(front []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(front))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			d.problems.add(1, "the front matter is empty: write at least name, description, provider, tools and limits")
			return nil
		}
		line, message := syntaxError(front, err)
		d.problems.add(line, "the front matter is not valid YAML: %s", message)
		return nil
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		d.problems.add(max(more.Line, 2), "the front matter holds more than one YAML document: keep one")
		return nil
	}
	root := doc.Content[0]
	if !d.plain(root, 0) {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		d.problems.add(root.Line, "the front matter must be keys and values, such as name: log-triage")
		return nil
	}
	return root
}

// syntaxError returns where the YAML is wrong, and how. The library counts
// lines from 0 in what its parser says and from 1 in what its scanner says, and
// for a tab it names the line before.
func syntaxError(front []byte, err error) (line int, message string) {
	line, message = 2, strings.TrimPrefix(err.Error(), "yaml: ")
	m := yamlLine.FindStringSubmatch(message)
	if m == nil {
		return line, message
	}
	line, _ = strconv.Atoi(m[1])
	message = strings.Replace(message, m[0], "", 1)
	lines := strings.Split(string(front), "\n")
	switch {
	case strings.HasPrefix(message, "did not find expected"):
		line++
	case strings.Contains(message, "tab character"):
		for line <= len(lines) && !tabIndent.MatchString(lines[line-1]) {
			line++
		}
	}
	return min(line, len(lines)), message
}

var tabIndent = regexp.MustCompile(`^\s*\t`)

// maxDepth is deeper than any key there is.
const maxDepth = 8

// plain refuses what could make a small file large: aliases and deep nesting.
func (d *reader) plain(n *yaml.Node, depth int) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.problems.add(n.Line, "YAML anchors and aliases are not allowed: write the value out")
		return false
	}
	if depth > maxDepth {
		d.problems.add(n.Line, "the front matter is nested more than %d levels deep", maxDepth)
		return false
	}
	for _, child := range n.Content {
		if !d.plain(child, depth+1) {
			return false
		}
	}
	return true
}

// field is one key that a mapping may have and what reads its value.
type field struct {
	key string
	set func(n *yaml.Node)
}

// mapping reads the keys of n. where names n in messages; empty for the top. It
// returns the lines of the keys it met.
func (d *reader) mapping(n *yaml.Node, where string, fields []field) map[string]int {
	met := map[string]int{}
	if n.Kind != yaml.MappingNode {
		d.problems.add(n.Line, "%s must be keys and values, such as %s: …", where, fields[0].key)
		return met
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.key
	}
	prefix := ""
	if where != "" {
		prefix = where + "."
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := slices.Index(names, key.Value)
		switch {
		case key.Kind != yaml.ScalarNode:
			d.problems.add(key.Line, "%s has a key that is no word", cmp.Or(where, "the front matter"))
		case at < 0:
			d.problems.add(key.Line, "unknown key %q: %s", prefix+key.Value, suggest(key.Value, names))
		case met[key.Value] != 0:
			d.problems.add(key.Line, "%s is given twice (first in line %d): keep one", prefix+key.Value, met[key.Value])
		default:
			met[key.Value] = key.Line
			fields[at].set(value)
		}
	}
	return met
}

// require reports the keys that were not met.
func (d *reader) require(n *yaml.Node, met map[string]int, keys map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if met[key] == 0 {
			d.problems.add(n.Line, "%s is missing: write %s", key, keys[key])
		}
	}
}

func quote(s string) string {
	const limit = 60
	return fmt.Sprintf("%q", textcut.Bytes(s, limit, "…"))
}
