package persona

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Rename returns a persona file with another name. Nothing else of the file changes. The
// error is for a file whose name is written in a way that cannot be replaced safely, such
// as over several lines.
func Rename(markdown, name string) (string, error) {
	_, root, err := frontOf(markdown)
	if err != nil {
		return "", err
	}
	_, value := entry(root, "name")
	if value == nil || value.Kind != yaml.ScalarNode || value.Anchor != "" {
		return "", errNotEdited
	}
	lines := strings.SplitAfter(markdown, "\n")
	line, at := []rune(lines[value.Line-1]), value.Column-1
	written := value.Value
	switch {
	case value.Style&yaml.DoubleQuotedStyle != 0:
		written = `"` + written + `"`
	case value.Style&yaml.SingleQuotedStyle != 0:
		written = "'" + written + "'"
	}
	rest, ok := strings.CutPrefix(string(line[min(at, len(line)):]), written)
	if !ok {
		return "", errNotEdited
	}
	lines[value.Line-1] = string(line[:at]) + name + rest
	edited := strings.Join(lines, "")
	if _, root, err = frontOf(edited); err != nil {
		return "", fmt.Errorf("%w: %w", errNotEdited, err)
	}
	if _, value = entry(root, "name"); value == nil || value.Value != name {
		return "", errNotEdited
	}
	return edited, nil
}

// Without returns a persona file without a top key, and whether it had it. Comments before
// the key that follows stay.
func Without(markdown, key string) (string, bool, error) {
	_, root, err := frontOf(markdown)
	if err != nil {
		return "", false, err
	}
	lines := strings.SplitAfter(markdown, "\n")
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i].Value != key {
			continue
		}
		if root.Style&yaml.FlowStyle != 0 {
			return "", true, errNotEdited
		}
		from, to := root.Content[i].Line-1, 0
		if i+2 < len(root.Content) {
			to = root.Content[i+2].Line - 1
		} else if to, err = endOfFront(lines); err != nil {
			return "", true, err
		}
		for to > from+1 && (strings.HasPrefix(lines[to-1], "#") || strings.TrimSpace(lines[to-1]) == "") {
			to--
		}
		return strings.Join(append(lines[:from:from], lines[to:]...), ""), true, nil
	}
	return markdown, false, nil
}
