package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// maxNodes bounds the nodes of a page that are looked at.
const maxNodes = 50_000

// maxFrames bounds the frames of a page that are looked into.
const maxFrames = 30

// node is one of a page's accessibility tree, without those that say nothing.
type node struct {
	element
	value, description string
	// states are such as checked, disabled and level=2.
	states   []string
	disabled bool
	focused  bool
	can      bool // it can take the focus
	children []*node
	parent   *node
	// said is what text returns, and words its stems with those of the name, once they were
	// asked for: the tree does not change after it was read.
	said  *string
	words []string
}

// axNode is a node as the browser reports it.
type axNode struct {
	NodeID      string  `json:"nodeId"`
	Ignored     bool    `json:"ignored"`
	Role        axValue `json:"role"`
	Name        axValue `json:"name"`
	Description axValue `json:"description"`
	Value       axValue `json:"value"`
	Properties  []struct {
		Name  string  `json:"name"`
		Value axValue `json:"value"`
	} `json:"properties"`
	ParentID string   `json:"parentId"`
	ChildIDs []string `json:"childIds"`
	Backend  int64    `json:"backendDOMNodeId"`
}

type axValue struct {
	Value any `json:"value"`
}

func (v axValue) String() string {
	switch value := v.Value.(type) {
	case nil:
		return ""
	case string:
		return value
	case float64:
		return strings.TrimSuffix(fmt.Sprintf("%g", value), ".0")
	}
	return fmt.Sprint(v.Value)
}

// frame is one of a page's.
type frame struct {
	Frame struct {
		ID  string `json:"id"`
		URL string `json:"url"`
	} `json:"frame"`
	Children []frame `json:"childFrames"`
}

// frames returns the ids of a tab's frames, the page itself first.
func (p *page) frames(ctx context.Context) ([]string, error) {
	var all struct {
		Tree frame `json:"frameTree"`
	}
	if err := p.act(ctx, "Page.getFrameTree", nil, &all); err != nil {
		return nil, err
	}
	var ids []string
	for todo := []frame{all.Tree}; len(todo) > 0 && len(ids) < maxFrames; todo = todo[1:] {
		ids = append(ids, todo[0].Frame.ID)
		todo = append(todo, todo[0].Children...)
	}
	return ids, nil
}

// tree returns the accessibility tree of a tab, with that of each frame below the element
// that shows it.
func (p *page) tree(ctx context.Context) (*node, error) {
	type axTree struct {
		Nodes []axNode `json:"nodes"`
	}
	read := func(frame string) (all axTree, err error) {
		return all, p.act(ctx, "Accessibility.getFullAXTree", map[string]any{"frameId": frame}, &all)
	}
	// The page's own is read while its frames are listed.
	var own axTree
	var ownErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		own, ownErr = read(p.t.target)
	}()
	frames, err := p.frames(ctx)
	<-done
	if err != nil {
		return nil, err
	}
	var root *node
	left := maxNodes
	owners := map[int64]*node{}
	for i, id := range frames {
		all, err := own, ownErr
		if id != p.t.target {
			all, err = read(id)
		}
		if i > 0 && err != nil && ctx.Err() == nil {
			continue // the frame is gone meanwhile, or empty
		}
		if err != nil {
			return nil, err
		}
		made := build(all.Nodes, id, &left)
		if made == nil {
			continue
		}
		collect(made, func(n *node) {
			if n.role == "Iframe" || n.role == "IframePresentational" {
				owners[n.backend] = n
			}
		})
		if i == 0 {
			root = made
			continue
		}
		var owner struct {
			Backend int64 `json:"backendNodeId"`
		}
		if err := p.act(ctx, "DOM.getFrameOwner", map[string]any{"frameId": id}, &owner); err != nil {
			continue
		}
		if at := owners[owner.Backend]; at != nil {
			made.parent = at
			at.children = append(at.children, made)
		}
	}
	if root == nil {
		root = &node{element: element{role: "RootWebArea"}}
	}
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	if len(p.t.secrets) > 0 {
		collect(root, func(n *node) {
			if _, secret := p.t.secrets[n.backend]; secret {
				n.value, n.children = "[typed by a person]", nil
			}
		})
	}
	return root, nil
}

// collect calls do for a node and all below it, in the order of the page.
func collect(n *node, do func(*node)) {
	do(n)
	for _, child := range n.children {
		collect(child, do)
	}
}

// build makes the tree of a frame's nodes.
func build(all []axNode, frame string, left *int) *node {
	byID := make(map[string]*axNode, len(all))
	for i := range all {
		byID[all[i].NodeID] = &all[i]
	}
	var walk func(id string, depth int) []*node
	walk = func(id string, depth int) []*node {
		at := byID[id]
		if at == nil || *left <= 0 || depth > 400 {
			return nil
		}
		delete(byID, id) // each once
		*left--
		role := at.Role.String()
		if role == "InlineTextBox" || role == "LineBreak" {
			return nil
		}
		var below []*node
		for _, child := range at.ChildIDs {
			below = append(below, walk(child, depth+1)...)
		}
		n := &node{element: element{backend: at.Backend, frame: frame, role: role, name: clean(at.Name.String(), 300)}}
		n.take(at)
		// A container that says nothing itself, unless something can be done with it.
		if at.Ignored || silent[role] && n.name == "" && !n.can {
			return below
		}
		for _, child := range below {
			child.parent = n
		}
		n.children = below
		return []*node{n}
	}
	for _, at := range all {
		if at.ParentID == "" {
			if made := walk(at.NodeID, 0); len(made) > 0 {
				return made[0]
			}
			return nil
		}
	}
	return nil
}

// silent are roles that say nothing of what is in them.
var silent = map[string]bool{
	"": true, "none": true, "generic": true, "presentation": true, "LayoutTable": true, "LayoutTableRow": true, "LayoutTableCell": true, "GenericContainer": true,
	"Section": true, "rowgroup": true, "group": true, "Canvas": false, "paragraph": false,
}

// take reads a node's properties.
func (n *node) take(at *axNode) {
	n.value, n.description = clean(at.Value.String(), 200), clean(at.Description.String(), 200)
	for _, p := range at.Properties {
		value := p.Value.String()
		switch p.Name {
		case "focusable":
			n.can = value == "true"
		case "focused":
			n.focused = value == "true"
		case "disabled":
			if value == "true" {
				n.disabled = true
				n.states = append(n.states, "disabled")
			}
		case "checked", "pressed":
			if value == "true" || value == "mixed" {
				n.states = append(n.states, map[string]string{"true": p.Name, "mixed": p.Name + "=mixed"}[value])
			}
		case "expanded":
			n.states = append(n.states, map[string]string{"true": "expanded", "false": "collapsed"}[value])
		case "selected", "required", "readonly", "busy":
			if value == "true" {
				n.states = append(n.states, p.Name)
			}
		case "invalid":
			if value == "true" {
				n.states = append(n.states, "invalid")
			}
		case "multiselectable":
			if value == "true" {
				n.states = append(n.states, "multiple")
			}
		case "level":
			if n.role == "heading" {
				n.states = append(n.states, "level="+value)
			}
		}
	}
	n.states = slices.DeleteFunc(n.states, func(s string) bool { return s == "" })
}

func clean(text string, most int) string {
	return strings.Join(strings.Fields(report.Clean([]byte(strings.Join(strings.Fields(text), " ")), most)), " ")
}

// text returns what a node and those below it say, in one line.
func (n *node) text() string {
	if n.said == nil {
		said := n.say()
		n.said = &said
	}
	return *n.said
}

func (n *node) say() string {
	if n.role == "StaticText" {
		return n.name
	}
	var parts []string
	for _, child := range n.children {
		if s := child.text(); s != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return n.name
	}
	return strings.Join(parts, " ")
}

// acts are the roles of elements that something can be done with.
var actsOn = map[string]bool{
	"button": true, "link": true, "textbox": true, "searchbox": true, "combobox": true, "checkbox": true, "radio": true, "switch": true, "slider": true,
	"spinbutton": true, "tab": true, "menuitem": true, "menuitemcheckbox": true, "menuitemradio": true, "option": true, "treeitem": true, "listbox": true,
	"DisclosureTriangle": true, "Date": true, "DateTime": true, "InputTime": true, "ColorWell": true, "PopUpButton": true, "TextField": true, "SearchBox": true,
	"ToggleButton": true, "MenuListPopup": false, "MenuListOption": true, "columnheader": false, "gridcell": false, "Video": true, "Audio": true, "Canvas": true,
}

// interactive reports whether something can be done with a node.
func (n *node) interactive() bool {
	return actsOn[n.role] || n.can && n.role != "RootWebArea" && n.role != "Iframe" && n.role != "dialog"
}

// roleName returns a role as ARIA spells it.
func roleName(role string) string {
	if plain, ok := map[string]string{
		"RootWebArea": "page", "StaticText": "text", "Iframe": "iframe", "IframePresentational": "iframe", "DisclosureTriangle": "button", "PopUpButton": "combobox",
		"MenuListOption": "option", "ToggleButton": "button", "TextField": "textbox", "SearchBox": "searchbox", "Date": "date", "DateTime": "datetime", "InputTime": "time",
		"ColorWell": "color", "LabelText": "label", "Legend": "legend", "Abbr": "abbr", "Video": "video", "Audio": "audio", "Canvas": "canvas", "GenericContainer": "generic",
		"SvgRoot": "image", "Pre": "pre", "ListMarker": "", "DescriptionList": "list", "Details": "details",
	}[role]; ok {
		return plain
	}
	return strings.ToLower(role)
}

// unmarshalString decodes a JSON string.
func unmarshalString(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s
}
