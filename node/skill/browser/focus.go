package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// maxDepth bounds how many frames in one another are looked through for the focus.
const maxDepth = 10

// focused is the element that has the focus.
type focused struct {
	On, Origin string
	// Secret reports that it is for a secret, or that it is not known what it is.
	Secret bool

	object  string
	frame   string
	backend int64
	// within are the elements of a closed shadow tree, one of which has the focus.
	within []int64
}

// domNode is an element as the browser describes it.
type domNode struct {
	Backend     int64     `json:"backendNodeId"`
	LocalName   string    `json:"localName"`
	FrameID     string    `json:"frameId"`
	ShadowType  string    `json:"shadowRootType"`
	ShadowRoots []domNode `json:"shadowRoots"`
	Children    []domNode `json:"children"`
}

// ids returns the ids of an element and of all below it.
func (n domNode) ids(out []int64) []int64 {
	out = append(out, n.Backend)
	for _, below := range [][]domNode{n.ShadowRoots, n.Children} {
		for _, one := range below {
			out = one.ids(out)
		}
	}
	return out
}

// activeScript returns the element of a document that has the focus, in open shadow trees too.
const activeScript = `(() => {
	let e = document.activeElement;
	while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
	return e ?? document.documentElement;
})()`

// focusScript says what an element is called, of which origin it is, and whether it is for a
// secret: by its type, by how it shows what is typed, or by its names.
//
//nolint:gosec // a script, no secret
const focusScript = `function() { ` + nameScript + `
	const e = this, field = ['input', 'textarea'].includes(e.localName);
	const label = [...(e.labels ?? [])].map((l) => l.innerText).join(' ');
	const hints = [e.autocomplete, e.name, e.id, e.placeholder, e.getAttribute('aria-label'), label].join(' ').replace(/([a-z])([A-Z])/g, '$1 $2');
	const masked = (getComputedStyle(e).webkitTextSecurity ?? 'none') !== 'none';
	const secret = e.type === 'password' || masked || (field || e.isContentEditable) &&
		(/passw|passphrase|one-?time|cc-(number|csc|exp)|card.?num|security.?code|secret/i.test(hints) || /(^|[^a-z])(pin|t?otp|cvv2?|cvc2?|csc|mfa|2fa)([^a-z]|$)/i.test(hints));
	return {on: name(e), secret, origin: location.origin === 'null' ? self.origin : location.origin};
}`

// valueScript returns what is in a field.
const valueScript = `function() { return this.isContentEditable ? this.textContent : String(this.value ?? ''); }`

// focus follows the focus through frames and shadow trees to the element that has it. The caller
// releases its object.
func (p *page) focus(ctx context.Context) (f focused, err error) {
	frame := p.t.target
	for range maxDepth {
		world, err := p.world(ctx, frame)
		if err != nil {
			return f, err
		}
		var out evaluated
		if err := p.act(ctx, "Runtime.evaluate", map[string]any{"expression": activeScript, "contextId": world}, &out); err != nil {
			return f, err
		}
		f.object = out.Result.ObjectID
		if f.object == "" {
			return f, errors.New("the page has no element")
		}
		var described struct{ Node domNode }
		if err := p.act(ctx, "DOM.describeNode", map[string]any{"objectId": f.object, "depth": 0}, &described); err != nil {
			p.release(f.object)
			return f, err
		}
		at := described.Node
		if at.FrameID != "" && at.LocalName != "html" {
			p.release(f.object)
			frame = at.FrameID
			continue
		}
		f.backend, f.frame = at.Backend, frame
		raw, err := p.value(ctx, "Runtime.callFunctionOn", map[string]any{"functionDeclaration": focusScript, "objectId": f.object, "returnByValue": true})
		if err == nil {
			err = json.Unmarshal(raw, &f)
		}
		for _, root := range at.ShadowRoots {
			if root.ShadowType == "closed" && err == nil {
				f.Secret = true
				if err = p.act(ctx, "DOM.describeNode", map[string]any{"objectId": f.object, "depth": -1, "pierce": true}, &described); err == nil {
					f.within = described.Node.ids(nil)
				}
			}
		}
		if err != nil {
			p.release(f.object)
		}
		return f, err
	}
	return f, fmt.Errorf("the focus is more than %d frames deep", maxDepth)
}

// valueOf returns what is in the element that had the focus.
func (p *page) valueOf(ctx context.Context, f focused) (string, error) {
	raw, err := p.value(ctx, "Runtime.callFunctionOn", map[string]any{"functionDeclaration": valueScript, "objectId": f.object, "returnByValue": true})
	if err != nil {
		return "", err
	}
	return unmarshalString(raw), nil
}
