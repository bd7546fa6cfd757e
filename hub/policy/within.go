package policy

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy/danger"
	"github.com/deckhand-sh/deckhand/hub/policy/shell"
)

// maxWithin is how deep the values of a call are looked at, and JSON within their texts.
const maxWithin = 20

// DangersWithin returns the kinds of danger in the texts of a call's arguments, each once and
// in order, if another system were to run those texts as shell scripts. JSON in a text is
// looked at value by value. Text of which no shell is the reader may be taken for dangerous:
// it is for calls that leave the workspace all at once, and not for deciding about each call.
func DangersWithin(arguments map[string]any) []string {
	var found []string
	look(arguments, 0, func(f danger.Finding) { found = append(found, string(f.Kind)) })
	slices.Sort(found)
	return slices.Compact(found)
}

func look(value any, depth int, note func(danger.Finding)) {
	if depth > maxWithin {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			look(v[key], depth+1, note)
		}
	case []any:
		for _, one := range v {
			look(one, depth+1, note)
		}
	case string:
		var inner any
		if trimmed := strings.TrimSpace(v); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") || strings.HasPrefix(trimmed, `"`) {
			if json.Unmarshal([]byte(trimmed), &inner) == nil {
				look(inner, depth+1, note)
				return
			}
		}
		for _, f := range danger.In(shell.Read(v, shell.Options{})) {
			note(f)
		}
	}
}
