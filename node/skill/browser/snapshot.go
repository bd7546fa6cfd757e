package browser

import (
	"context"
	"fmt"
	"strings"
)

// snapshot returns a tab's page as lines of text, in which each element that something can be
// done with has a reference. References stay until the page is left.
func (p *page) snapshot(ctx context.Context, below *element) ([]string, error) {
	root, err := p.tree(ctx)
	if err != nil {
		return nil, err
	}
	if below != nil {
		var at *node
		collect(root, func(n *node) {
			if n.backend == below.backend && at == nil {
				at = n
			}
		})
		if at == nil {
			return nil, fmt.Errorf("%s has no content that can be read", below.describe())
		}
		root = &node{element: element{role: "RootWebArea"}, children: []*node{at}}
	}
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	w := &writer{ref: p.t.ref}
	for _, child := range root.children {
		w.write(child, 0)
	}
	w.flush(0)
	return w.lines, nil
}

// ref returns the reference of an element; the browser's mu is held.
func (t *tab) ref(e element) string {
	if e.backend == 0 {
		return ""
	}
	name, ok := t.refs[e.backend]
	if !ok {
		name = fmt.Sprintf("e%d", len(t.refs)+1)
		t.refs[e.backend] = name
	}
	t.nodes[name] = e
	return name
}

// writer writes a tree in lines.
type writer struct {
	ref   func(element) string
	lines []string
	texts []string // that follow each other
}

func (w *writer) line(depth int, text string) {
	w.lines = append(w.lines, strings.Repeat(" ", min(depth, 12))+text)
}

// flush writes the texts that follow each other as one.
func (w *writer) flush(depth int) {
	if len(w.texts) > 0 {
		w.line(depth, "text: "+clean(strings.Join(w.texts, " "), 1000))
		w.texts = nil
	}
}

// plain are roles whose nodes say no more than their text.
var plain = map[string]bool{"paragraph": true, "LabelText": true, "Legend": true, "emphasis": true, "strong": true, "code": true, "time": true, "mark": true, "Abbr": true, "superscript": true, "subscript": true, "deletion": true, "insertion": true, "blockquote": true, "Pre": true, "term": true, "definition": true, "caption": true, "Figcaption": true, "MenuListPopup": true, "status": false}

// write writes a node and those below it.
func (w *writer) write(n *node, depth int) {
	switch {
	case n.role == "StaticText":
		if n.name != "" {
			w.texts = append(w.texts, n.name)
		}
		return
	case n.role == "ListMarker":
		return
	case plain[n.role] && !n.interactive():
		if n.role == "paragraph" || n.role == "blockquote" {
			w.flush(depth)
			defer w.flush(depth)
		}
		for _, child := range n.children {
			w.write(child, depth)
		}
		return
	case n.role == "row":
		w.flush(depth)
		if text, ok := w.row(n); ok {
			w.line(depth, text)
			return
		}
	}
	if n.interactive() && strings.TrimRight(clean(strings.Join(w.texts, " "), 300), " :*") == strings.TrimRight(n.name, " :*") {
		w.texts = nil // its label
	}
	w.flush(depth)
	name, said := n.name, n.text()
	head := roleName(n.role)
	if name != "" {
		head += fmt.Sprintf(" %q", name)
	}
	for _, state := range n.states {
		head += " [" + state + "]"
	}
	if n.focused && n.interactive() {
		head += " [focused]"
	}
	if n.interactive() || n.role == "dialog" || n.role == "Iframe" {
		if ref := w.ref(n.element); ref != "" {
			head += " [" + ref + "]"
		}
	}
	if n.value != "" && n.value != name {
		head += fmt.Sprintf(" value=%q", n.value)
	}
	if n.description != "" && n.description != name {
		head += fmt.Sprintf(" (%s)", n.description)
	}
	below := n.children
	if onlyText(n) {
		below = nil
		if said != "" && said != name && said != n.value {
			head += ": " + clean(said, 1000)
		}
	}
	if len(below) == 0 && head == roleName(n.role) && !n.interactive() && said == "" {
		return // it says nothing
	}
	w.line(depth, head)
	for _, child := range below {
		w.write(child, depth+1)
	}
	w.flush(depth + 1)
}

// row returns a row of a table in one line; false if there is more in it than text and
// elements without anything below them.
func (w *writer) row(n *node) (string, bool) {
	var cells []string
	for _, cell := range n.children {
		var parts []string
		for _, child := range cell.children {
			switch {
			case child.interactive() && onlyText(child):
				part := roleName(child.role)
				if child.name != "" {
					part += fmt.Sprintf(" %q", child.name)
				}
				for _, state := range child.states {
					part += " [" + state + "]"
				}
				if child.value != "" && child.value != child.name {
					part += fmt.Sprintf(" value=%q", child.value)
				}
				parts = append(parts, part+" ["+w.ref(child.element)+"]")
			case onlyText(child):
				parts = append(parts, child.text())
			default:
				return "", false
			}
		}
		if len(cell.children) == 0 {
			parts = append(parts, cell.name)
		}
		text := strings.Join(parts, " ")
		if cell.interactive() {
			text += " [" + w.ref(cell.element) + "]"
		}
		cells = append(cells, clean(text, 300))
	}
	head := "row"
	if n.interactive() {
		head += " [" + w.ref(n.element) + "]"
	}
	return head + ": " + strings.Join(cells, " | "), true
}

// onlyText reports whether there is nothing but text below a node.
func onlyText(n *node) bool {
	for _, child := range n.children {
		if child.role != "StaticText" && child.role != "ListMarker" && (!plain[child.role] || child.interactive() || !onlyText(child)) {
			return false
		}
	}
	return true
}

// maxDiff bounds the lines that are compared.
const maxDiff = 2000

// diff returns the lines that differ, those that are gone with - and those that are new with
// +; ok is false if there is too much to compare.
func diff(old, now []string) (lines []string, ok bool) {
	begin := 0
	for begin < len(old) && begin < len(now) && old[begin] == now[begin] {
		begin++
	}
	old, now = old[begin:], now[begin:]
	for len(old) > 0 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	if len(old) > maxDiff || len(now) > maxDiff {
		return nil, false
	}
	// The longest common subsequence.
	width := len(now) + 1
	longest := make([]uint16, (len(old)+1)*width)
	for i := len(old) - 1; i >= 0; i-- {
		for j := len(now) - 1; j >= 0; j-- {
			if old[i] == now[j] {
				longest[i*width+j] = longest[(i+1)*width+j+1] + 1
			} else {
				longest[i*width+j] = max(longest[(i+1)*width+j], longest[i*width+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(old) || j < len(now) {
		switch {
		case i < len(old) && j < len(now) && old[i] == now[j]:
			i, j = i+1, j+1
		case j == len(now) || i < len(old) && longest[(i+1)*width+j] >= longest[i*width+j+1]:
			lines = append(lines, "- "+strings.TrimLeft(old[i], " "))
			i++
		default:
			lines = append(lines, "+ "+strings.TrimLeft(now[j], " "))
			j++
		}
	}
	return lines, true
}

// fit returns as many lines as fit, and how many are left.
func fit(lines []string, most int) (text string, left int) {
	var out strings.Builder
	for i, line := range lines {
		if out.Len()+len(line)+1 > most {
			return out.String(), len(lines) - i
		}
		out.WriteString(line)
		out.WriteByte('\n')
	}
	return out.String(), 0
}

// describe names an element for people.
func (e element) describe() string {
	name := roleName(e.role)
	if name == "" || name == "generic" {
		name = "the element"
	}
	if e.name != "" {
		name += fmt.Sprintf(" %q", clean(e.name, 80))
	}
	return name
}
