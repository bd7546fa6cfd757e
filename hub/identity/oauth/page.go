package oauth

import (
	_ "embed"
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
)

// frame is the page around its content.
//
//go:embed authorize.html
var frame string

// contentMark is where the content goes.
const contentMark = "<!-- content -->"

// markup writes HTML whose values are escaped. It is not html/template: that calls methods
// by name, for which the linker keeps every method of the program, a third of its size.
type markup struct{ strings.Builder }

// add writes HTML in which every %s is replaced by a value, escaped. Values may stand in
// the text of elements and in quoted attributes, and nowhere else.
func (m *markup) add(format string, values ...string) {
	escaped := make([]any, len(values))
	for i, value := range values {
		escaped[i] = html.EscapeString(strings.ReplaceAll(value, "\x00", "�"))
	}
	fmt.Fprintf(m, format+"\n", escaped...)
}

// page returns the whole page.
func (v view) page() string {
	var m markup
	if v.Problem != "" {
		v.problem(&m)
	} else {
		v.question(&m)
	}
	return strings.Replace(frame, contentMark, m.String(), 1)
}

// problem says why the program cannot be connected.
func (v view) problem(m *markup) {
	m.add(`<h1>The program cannot be connected</h1>`)
	said := v.Problem
	if v.Fix != "" {
		said += " " + v.Fix
	}
	m.add(`<p role="alert">%s</p>`, said)
	if !v.Back {
		return
	}
	m.add(`<p>You can go back to “%s” at <strong>%s</strong>%s, which is told about the problem.</p>`, v.Program, v.Where, v.local())
	v.form(m)
	m.add(`<div class="actions"><button name="decision" value="deny">Go back to the program</button></div>`)
	m.add(`</form>`)
}

// question asks whether the program may use the hub.
func (v view) question(m *markup) {
	m.add(`<h1>Let “%s” use Deckhand as %s?</h1>`, v.Program, v.User)
	m.add(`<dl>`)
	m.add(`<dt>Name</dt><dd>%s (chosen by the program)</dd>`, v.Program)
	m.add(`<dt>Sends you to</dt><dd><strong>%s</strong>%s</dd>`, v.Where, v.local())
	m.add(`</dl>`)
	m.add(`<p>Allow it only if you have just started this yourself. You can disconnect it at any time, in the list of tokens.</p>`)
	v.form(m)
	m.add(`<fieldset>`)
	m.add(`<legend>It may:</legend>`)
	for _, c := range v.Scopes {
		m.add(`<label>`)
		if c.Checked {
			m.add(`<input type="radio" name="scope" value="%s" checked />`, c.Scope)
		} else {
			m.add(`<input type="radio" name="scope" value="%s" />`, c.Scope)
		}
		m.add(`<strong>%s</strong>`, c.Title)
		m.add(`<span>%s</span>`, c.Text)
		m.add(`</label>`)
	}
	m.add(`</fieldset>`)
	m.add(`<div class="actions"><button name="decision" value="deny">Cancel</button> <button name="decision" value="allow">Allow</button></div>`)
	m.add(`</form>`)
}

// form begins the form, with what the program asked.
func (v view) form(m *markup) {
	m.add(`<form method="post" action="%s">`, v.Action)
	for _, name := range slices.Sorted(maps.Keys(v.Fields)) {
		m.add(`<input type="hidden" name="%s" value="%s" />`, name, v.Fields[name])
	}
}

// local is what stands behind a place on the person's own computer.
func (v view) local() string {
	if v.Local == "" {
		return ""
	}
	return " (" + v.Local + ")"
}
