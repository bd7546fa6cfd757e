package browser

import (
	"context"
	"errors"
	"fmt"
	"maps"
)

// Nothing that shows a secret is in a picture: while it is taken, what has one of the values in
// it is hidden, in every frame and every shadow tree, and so are the fields into which a person
// typed a secret, whose value may be too short to be looked for.

// hideScript hides the elements of a document or a shadow tree that show a value, also those in open
// shadow trees in it. Given an element, it hides that. showScript ends it.
const hideScript = `(root, values) => {
	const has = (text) => values.some((v) => text.includes(v));
	const hide = (e) => {
		if (!e.style || e.hasAttribute('data-deckhand-hidden')) return;
		e.setAttribute('data-deckhand-hidden', e.style.getPropertyValue('filter') + '!' + e.style.getPropertyPriority('filter'));
		e.style.setProperty('filter', 'opacity(0)', 'important');
	};
	const walk = (root) => {
		for (const e of root.querySelectorAll('*')) {
			if (e.shadowRoot) walk(e.shadowRoot);
			if ((e.localName === 'input' || e.localName === 'textarea') && has(e.value)) hide(e);
			else if (e.localName !== 'script' && e.localName !== 'style' && !e.childElementCount && has(e.textContent)) hide(e);
			else for (const c of e.childNodes) if (c.nodeType === 3 && has(c.data)) { hide(e); break; }
		}
	};
	if (root.nodeType === 1) hide(root);
	else if (root.querySelectorAll) walk(root);
}`

const showScript = `(root) => {
	const show = (e) => {
		const was = e.getAttribute('data-deckhand-hidden');
		if (was === null) return;
		const at = was.lastIndexOf('!');
		e.style.removeProperty('filter');
		if (at > 0) e.style.setProperty('filter', was.slice(0, at), was.slice(at + 1));
		e.removeAttribute('data-deckhand-hidden');
	};
	const walk = (root) => {
		for (const e of root.querySelectorAll('*')) {
			if (e.shadowRoot) walk(e.shadowRoot);
			show(e);
		}
	};
	if (root.nodeType === 1) show(root);
	else if (root.querySelectorAll) walk(root);
}`

// hasSecrets reports whether something has to be hidden in pictures. What Chromium has drawn is used
// no more in a tab in which a secret was typed: it may be of the document before.
func hasSecrets(p *page) bool {
	p.b.mu.Lock()
	typed := len(p.t.secrets) > 0 || p.t.group.typed
	p.b.mu.Unlock()
	return typed || len(p.b.secrets.all()) > 0
}

// hideSecrets hides what shows a secret in all frames until the function that it returns is
// called. If a frame cannot be asked, there is no picture.
func hideSecrets(ctx context.Context, p *page) (show func(), err error) {
	if !hasSecrets(p) {
		return func() {}, nil
	}
	select {
	case p.b.secrets.hiding <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h := hider{page: p}
	show = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), watchWait)
		defer cancel()
		h.show(ctx)
		<-p.b.secrets.hiding
	}
	if err := h.hide(ctx); err != nil {
		show()
		return nil, fmt.Errorf("no picture is taken, because it might show a credential: %w", err)
	}
	return show, nil
}

// hider hides what shows a secret in a page.
type hider struct {
	*page
	// within are the objects in which something may be hidden: documents, closed shadow trees, and
	// fields.
	within []string
}

func (h *hider) hide(ctx context.Context) error {
	var tree struct {
		Tree frameTree `json:"frameTree"`
	}
	if err := h.act(ctx, "Page.getFrameTree", nil, &tree); err != nil {
		return err
	}
	values := h.b.secrets.all()
	worlds := map[string]int64{}
	for _, frame := range tree.Tree.ids(nil) {
		world, err := h.world(ctx, frame)
		if err != nil {
			return err
		}
		worlds[frame] = world
		if err := h.hideFrame(ctx, world, values); err != nil {
			return err
		}
	}
	h.b.mu.Lock()
	typed := maps.Clone(h.t.secrets)
	h.b.mu.Unlock()
	for backend, frame := range typed {
		if world, ok := worlds[frame]; ok {
			if err := h.hideNode(ctx, backend, world, values); err != nil {
				return err
			}
		}
	}
	return nil
}

// hideFrame hides what shows a value in a frame.
func (h *hider) hideFrame(ctx context.Context, world int64, values []string) error {
	var out evaluated
	if err := h.act(ctx, "Runtime.evaluate", map[string]any{"expression": "document", "contextId": world}, &out); err != nil {
		return err
	}
	if err := h.hideIn(ctx, out.Result.ObjectID, values); err != nil || len(values) == 0 {
		return err
	}
	// Scripts do not see closed shadow trees.
	var described struct{ Node domNode }
	if err := h.act(ctx, "DOM.describeNode", map[string]any{"objectId": out.Result.ObjectID, "depth": -1, "pierce": true}, &described); err != nil {
		return err
	}
	for _, root := range described.Node.closed(nil) {
		if err := h.hideNode(ctx, root, world, values); err != nil {
			return err
		}
	}
	return nil
}

// closed returns the ids of the closed shadow trees below a node, without those in other frames.
func (n domNode) closed(out []int64) []int64 {
	if n.ShadowType == "closed" {
		out = append(out, n.Backend)
	}
	for _, below := range [][]domNode{n.ShadowRoots, n.Children} {
		for _, one := range below {
			out = one.closed(out)
		}
	}
	return out
}

// hideNode hides what shows a value in a shadow tree, or a field. One that is gone shows nothing.
func (h *hider) hideNode(ctx context.Context, backend, world int64, values []string) error {
	var resolved struct {
		Object remote `json:"object"`
	}
	err := h.act(ctx, "DOM.resolveNode", map[string]any{"backendNodeId": backend, "executionContextId": world}, &resolved)
	var gone *protocolError
	if errors.As(err, &gone) {
		return nil
	}
	if err != nil {
		return err
	}
	return h.hideIn(ctx, resolved.Object.ObjectID, values)
}

func (h *hider) hideIn(ctx context.Context, object string, values []string) error {
	h.within = append(h.within, object)
	if values == nil {
		values = []string{}
	}
	_, err := h.value(ctx, "Runtime.callFunctionOn", map[string]any{
		"functionDeclaration": "function(values) { (" + hideScript + ")(this, values) }", "objectId": object, "arguments": []map[string]any{{"value": values}}, "returnByValue": true,
	})
	return err
}

// show ends what hide did; what is gone shows nothing.
func (h *hider) show(ctx context.Context) {
	for _, object := range h.within {
		_, _ = h.value(ctx, "Runtime.callFunctionOn", map[string]any{"functionDeclaration": "function() { (" + showScript + ")(this) }", "objectId": object, "returnByValue": true})
		h.release(object)
	}
}
