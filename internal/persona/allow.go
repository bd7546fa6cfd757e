package persona

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
)

// errNotEdited is the reason why a file must be changed by hand.
var errNotEdited = errors.New("its front matter has another form than expected")

// errLimited is the reason why a person widens a rule that limits methods or paths.
var errLimited = errors.New("its rules for the host allow some methods or paths only")

// Allow returns a persona file with a rule for a target added to egress.allow. Nothing else
// of the file changes: comments, order and spelling stay. A file that allows the target
// already is returned as it is. The error is for files in which the place for the rule is
// not clear, such as an egress that is an alias.
func Allow(markdown string, target allowlist.Target) (string, error) {
	before, err := egressOf(markdown)
	if err != nil {
		return "", err
	}
	if before.Match(target, allowlist.Opaque) == nil {
		return markdown, nil
	}
	// One more rule would widen what the others leave out.
	if slices.ContainsFunc(before.Rules, func(r allowlist.Rule) bool { return r.Reaches(target) }) {
		return "", errLimited
	}
	edited, err := withRule(markdown, `"`+allowlist.RuleFor(target)+`"`)
	if err != nil {
		return "", err
	}
	after, err := egressOf(edited)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNotEdited, err)
	}
	if after.Match(target, allowlist.Opaque) != nil || len(after.Rules) != len(before.Rules)+1 || len(after.Forwards) != len(before.Forwards) {
		return "", errNotEdited
	}
	return edited, nil
}

// front returns the top mapping of a file's front matter.
func frontOf(markdown string) (*decoder, *yaml.Node, error) {
	d := &decoder{reader: reader{problems: &Problems{}}}
	front, _, ok := d.split([]byte(markdown))
	if !ok {
		return nil, nil, errNotEdited
	}
	root := d.document(front)
	if root == nil || root.Kind != yaml.MappingNode {
		return nil, nil, errNotEdited
	}
	return d, root, nil
}

func egressOf(markdown string) (allowlist.List, error) {
	d, root, err := frontOf(markdown)
	if err != nil {
		return allowlist.List{}, err
	}
	_, value := entry(root, "egress")
	if value == nil {
		return allowlist.List{}, nil
	}
	list := egressDecoder{&d.reader}.egress(value)
	if len(d.problems.List) > 0 {
		return list, errors.New(d.problems.Error())
	}
	return list, nil
}

// entry returns a key of a mapping and its value; nil if it has none.
func entry(mapping *yaml.Node, key string) (k, v *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

// withRule inserts a rule, as it is written in YAML, into egress.allow.
func withRule(markdown, rule string) (string, error) {
	_, root, err := frontOf(markdown)
	if err != nil {
		return "", err
	}
	lines := strings.SplitAfter(markdown, "\n")
	egress, value := entry(root, "egress")
	if egress == nil {
		end, err := endOfFront(lines)
		if err != nil {
			return "", err
		}
		return insertLines(lines, end, "egress:", "  allow: ["+rule+"]"), nil
	}
	if value.Kind != yaml.MappingNode || value.Alias != nil {
		return "", errNotEdited
	}
	key, allow := entry(value, "allow")
	switch {
	case key == nil && value.Style&yaml.FlowStyle != 0:
		return insertAt(lines, value, "{", "allow: ["+rule+"]", len(value.Content) > 0)
	case key == nil && len(value.Content) > 0:
		first := value.Content[0]
		return insertLines(lines, first.Line-1, strings.Repeat(" ", first.Column-1)+"allow: ["+rule+"]"), nil
	case key == nil || allow.Kind != yaml.SequenceNode || allow.Alias != nil:
		return "", errNotEdited
	case allow.Style&yaml.FlowStyle != 0:
		return insertAt(lines, allow, "[", rule, len(allow.Content) > 0)
	case len(allow.Content) == 0:
		return "", errNotEdited
	}
	item := allow.Content[len(allow.Content)-1]
	at := item.Line // behind the last item, if that is one line
	if item.Kind != yaml.ScalarNode || item.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		item = allow.Content[0]
		at = item.Line - 1
	}
	return insertLines(lines, at, strings.Repeat(" ", allow.Column-1)+"- "+rule), nil
}

// endOfFront returns the index of the line that ends the front matter.
func endOfFront(lines []string) (int, error) {
	for i, line := range lines {
		if i > 0 && strings.TrimRight(line, " \t\r\n") == "---" {
			return i, nil
		}
	}
	return 0, errNotEdited
}

// insertLines inserts lines before an index, with the line end that the file has.
func insertLines(lines []string, at int, added ...string) string {
	end := "\n"
	if at > 0 && strings.HasSuffix(lines[at-1], "\r\n") {
		end = "\r\n"
	}
	var out strings.Builder
	for i, line := range lines {
		if i == at {
			for _, a := range added {
				out.WriteString(a + end)
			}
		}
		out.WriteString(line)
	}
	return out.String()
}

// insertAt inserts text behind the bracket with which a node begins.
func insertAt(lines []string, node *yaml.Node, bracket, text string, more bool) (string, error) {
	line := []rune(lines[node.Line-1])
	at := node.Column - 1
	if at >= len(line) || string(line[at]) != bracket {
		return "", errNotEdited
	}
	if more {
		text += ", "
	}
	lines[node.Line-1] = string(line[:at+1]) + text + string(line[at+1:])
	return strings.Join(lines, ""), nil
}
