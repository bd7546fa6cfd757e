package policy

import (
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy/danger"
	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// writingTools are the tools whose arguments contain what they write.
var writingTools = []string{toolname.FileWrite, toolname.FileAppend, toolname.FileEdit, toolname.FileMove, toolname.FileDelete, toolname.ShellExec, toolname.JobInput, toolname.TerminalOpen, toolname.TerminalWrite, toolname.ApplyPatch}

// WritingTools returns the tools whose calls After follows.
func WritingTools() []string { return slices.Clone(writingTools) }

// Runs reports whether a call runs commands, so that it matters what the task has
// written before.
func (c Call) Runs() bool {
	if typed, ok := c.typed(); ok {
		c = typed
	}
	_, ok := c.Arguments["command"].(string)
	return ok && c.Tool == toolname.ShellExec
}

// After returns what is known of the files of a task after a call, from what was known
// before it (Written). A file whose content cannot be determined is recorded as written,
// with unknown content.
func (c Call) After() shell.Record {
	out, name := c.Written, Abs(text(c.Arguments, "path"))
	switch c.Tool {
	case toolname.FileWrite:
		return out.With(name, text(c.Arguments, "content"))
	case toolname.FileAppend:
		before, _ := out.Get(name)
		return out.With(name, before.Text+text(c.Arguments, "content"))
	case toolname.FileEdit:
		return out.With(name, c.edited(out, name))
	case toolname.FileMove:
		return out.Moved(Abs(text(c.Arguments, "from")), Abs(text(c.Arguments, "to")))
	case toolname.FileDelete:
		return out.Moved(name, "")
	case toolname.ApplyPatch:
		return c.patched(c.standsFor()).Written
	}
	if typed, ok := c.typed(); ok {
		c = typed
	}
	c.read()
	if c.script == nil {
		return out
	}
	out = c.script.After
	for i := range c.script.Commands {
		cmd := &c.script.Commands[i]
		if cmd.Language == "" || cmd.Language == "shell" {
			continue
		}
		_, written := danger.Files(cmd.Language, cmd.Code.Text)
		for _, p := range written {
			if _, ok := out.Get(cmd.Abs(p)); !ok {
				out = out.WithUnknown(cmd.Abs(p), cmd.Name())
			}
		}
	}
	return out
}

// edited returns what a file holds after its edit; of one that is not known, the text that
// was put into it.
func (c Call) edited(r shell.Record, name string) string {
	before, known := r.Get(name)
	was, is := text(c.Arguments, "old_string"), text(c.Arguments, "new_string")
	if !known || !before.Known {
		return is + "\n" + before.Text
	}
	n := 1
	if c.Arguments["replace_all"] == true {
		n = -1
	}
	if was == "" {
		n = 0
	}
	return strings.Replace(before.Text, was, is, n)
}
