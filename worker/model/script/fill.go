package script

import (
	"fmt"
	"regexp"
)

// reference is ${name}, or $${name} for a literal ${name}. Anything else that
// begins with a dollar sign, as in shell and awk, is left alone.
var reference = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// fill puts captures into text.
func fill(text string, captures map[string]string, file string, line int) (string, error) {
	var missing string
	out := reference.ReplaceAllStringFunc(text, func(match string) string {
		if match[1] == '$' {
			return match[1:]
		}
		name := match[2 : len(match)-1]
		value, ok := captures[name]
		if !ok {
			missing = name
		}
		return value
	})
	if missing != "" {
		return "", fmt.Errorf("%s:%d: ${%s} is used before a turn on this way captured it", file, line, missing)
	}
	return out, nil
}

// fillValue puts captures into every string of a value, keys left alone.
func fillValue(v any, captures map[string]string, file string, line int) (any, error) {
	switch v := v.(type) {
	case string:
		return fill(v, captures, file, line)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			filled, err := fillValue(item, captures, file, line)
			if err != nil {
				return nil, err
			}
			out[i] = filled
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			filled, err := fillValue(item, captures, file, line)
			if err != nil {
				return nil, err
			}
			out[key] = filled
		}
		return out, nil
	default:
		return v, nil
	}
}

// references returns the names that a value refers to.
func references(v any) []string {
	var out []string
	switch v := v.(type) {
	case string:
		for _, match := range reference.FindAllString(v, -1) {
			if match[1] != '$' {
				out = append(out, match[2:len(match)-1])
			}
		}
	case []any:
		for _, item := range v {
			out = append(out, references(item)...)
		}
	case map[string]any:
		for _, item := range v {
			out = append(out, references(item)...)
		}
	}
	return out
}
