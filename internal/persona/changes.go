package persona

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"go.yaml.in/yaml/v3"
)

// maxChanges is how many keys a line about changes names.
const maxChanges = 6

// Changes says in one line how two persona files differ: the keys that were added, removed
// or changed, those of the second level after a dot, and how many lines of the prompt. It
// is empty for files that differ in nothing, or in comments and spelling only.
func Changes(before, after string) string {
	was, wasPrompt := valuesOf(before)
	is, isPrompt := valuesOf(after)
	var out []string
	for _, key := range is.keys {
		if old, had := was.text[key]; !had {
			out = append(out, "+"+key)
		} else if old != is.text[key] {
			out = append(out, key)
		}
	}
	for _, key := range was.keys {
		if _, has := is.text[key]; !has {
			out = append(out, "-"+key)
		}
	}
	if more := len(out) - maxChanges; more > 0 {
		out = append(out[:maxChanges:maxChanges], fmt.Sprintf("%d more keys", more))
	}
	if wasPrompt != isPrompt {
		added, removed := lineChanges(wasPrompt, isPrompt)
		out = append(out, fmt.Sprintf("prompt (+%d -%d lines)", added, removed))
	}
	return strings.Join(out, ", ")
}

func lineChanges(before, after string) (added, removed int) {
	for _, edit := range udiff.Lines(before, after) {
		removed += strings.Count(before[edit.Start:edit.End], "\n")
		added += strings.Count(edit.New, "\n")
	}
	return added, removed
}

// frontValues are the keys of a front matter, in order, with their values as text.
type frontValues struct {
	keys []string
	text map[string]string
}

// valuesOf returns the keys of a file, and its prompt with a line end.
func valuesOf(markdown string) (frontValues, string) {
	out := frontValues{text: map[string]string{}}
	d := &decoder{reader: reader{problems: &Problems{}}}
	_, body, _ := d.split([]byte(markdown))
	_, root, err := frontOf(markdown)
	if err != nil {
		return out, body + "\n"
	}
	out.add("", root)
	return out, strings.TrimSpace(body) + "\n"
}

// add adds the entries of a mapping, those of the mappings in it one by one.
func (f *frontValues) add(prefix string, mapping *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := prefix+mapping.Content[i].Value, mapping.Content[i+1]
		if prefix == "" && value.Kind == yaml.MappingNode {
			f.add(key+".", value)
			continue
		}
		if !slices.Contains(f.keys, key) {
			f.keys = append(f.keys, key)
		}
		f.text[key] = plainText(value)
	}
}

// plainText returns what a node holds, whatever its style and comments.
func plainText(n *yaml.Node) string {
	if n.Alias != nil {
		n = n.Alias
	}
	parts := make([]string, 0, len(n.Content)+1)
	parts = append(parts, fmt.Sprintf("%d:%q", n.Kind, n.Value))
	for _, child := range n.Content {
		parts = append(parts, plainText(child))
	}
	return "(" + strings.Join(parts, " ") + ")"
}
