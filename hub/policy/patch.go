package policy

import (
	"github.com/deckhand-sh/deckhand/internal/patch"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// Parts returns the calls of the tools for files that a call of apply_patch stands for: it is
// decided as all of them. An error is a fault that says what is wrong with the patch.
func Parts(c Call) ([]Call, error) {
	if c.Tool != toolname.ApplyPatch {
		return nil, nil
	}
	files, err := patch.Parse(text(c.Arguments, "input"))
	if err != nil {
		return nil, err
	}
	var out []Call
	add := func(tool, category string, arguments map[string]any) {
		one := c
		one.Tool, one.Arguments, one.script = tool, arguments, nil
		if category != "" {
			one.Category = category
		}
		out = append(out, one)
	}
	for _, f := range files {
		switch f.Kind {
		case patch.Add:
			add(toolname.FileWrite, "", map[string]any{"path": f.Path, "content": f.Content})
		case patch.Delete:
			add(toolname.FileDelete, "dangerous", map[string]any{"path": f.Path})
		case patch.Update:
			for _, h := range f.Hunks {
				was, is := h.Texts()
				add(toolname.FileEdit, "", map[string]any{"path": f.Path, "old_string": was, "new_string": is})
			}
			if f.To != "" {
				add(toolname.FileMove, "", map[string]any{"from": f.Path, "to": f.To})
			}
		}
	}
	return out, nil
}

// standsFor returns the calls that a call is decided as besides itself.
func (c Call) standsFor() []Call {
	if typed, ok := c.typed(); ok {
		return []Call{typed}
	}
	parts, err := Parts(c)
	if err != nil {
		return nil // the tool refuses it
	}
	return parts
}

// patched returns what is known of the files after the parts of a patch.
func (c Call) patched(parts []Call) Call {
	for _, part := range parts {
		part.Written = c.Written
		c.Written = part.After()
	}
	return c
}
