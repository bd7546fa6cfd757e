package browser

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"
)

// key is one of the keyboard.
type key struct {
	name, code, text string
	number           int
}

var named = map[string]key{
	"enter": {"Enter", "Enter", "\r", 13}, "tab": {"Tab", "Tab", "", 9}, "escape": {"Escape", "Escape", "", 27}, "backspace": {"Backspace", "Backspace", "", 8},
	"delete": {"Delete", "Delete", "", 46}, "insert": {"Insert", "Insert", "", 45}, "space": {" ", "Space", " ", 32},
	"arrowleft": {"ArrowLeft", "ArrowLeft", "", 37}, "arrowup": {"ArrowUp", "ArrowUp", "", 38}, "arrowright": {"ArrowRight", "ArrowRight", "", 39}, "arrowdown": {"ArrowDown", "ArrowDown", "", 40},
	"home": {"Home", "Home", "", 36}, "end": {"End", "End", "", 35}, "pageup": {"PageUp", "PageUp", "", 33}, "pagedown": {"PageDown", "PageDown", "", 34},
	"shift": {"Shift", "ShiftLeft", "", 16}, "control": {"Control", "ControlLeft", "", 17}, "alt": {"Alt", "AltLeft", "", 18}, "meta": {"Meta", "MetaLeft", "", 91},
}

// modifiers are as the protocol numbers them.
var modifiers = map[string]int{"alt": 1, "control": 2, "ctrl": 2, "meta": 4, "cmd": 4, "shift": 8}

// parseKey reads a key such as Enter, a, F5 or Control+Shift+ArrowLeft.
func parseKey(text string) (k key, held int, err error) {
	parts := strings.Split(text, "+")
	if strings.HasSuffix(text, "+") { // the key + itself
		parts = append(strings.Split(strings.TrimSuffix(strings.TrimSuffix(text, "+"), "+"), "+"), "+")
	}
	name := parts[len(parts)-1]
	for _, part := range parts[:len(parts)-1] {
		m := modifiers[strings.ToLower(part)]
		if m == 0 && part != "" {
			return k, 0, fmt.Errorf("key %q: %q is no modifier; use Control, Shift, Alt or Meta", text, part)
		}
		held |= m
	}
	if k, ok := named[strings.ToLower(name)]; ok {
		return k, held, nil
	}
	var n int
	if _, err := fmt.Sscanf(strings.ToUpper(name), "F%d", &n); err == nil && n >= 1 && n <= 12 && len(name) <= 3 {
		return key{strings.ToUpper(name), strings.ToUpper(name), "", 111 + n}, held, nil
	}
	if utf8.RuneCountInString(name) != 1 {
		return k, 0, fmt.Errorf("key %q is not known: use a character, or a name such as Enter, Tab, Escape, ArrowDown, PageDown, Backspace or F5, with Control+, Shift+, Alt+ or Meta+ before it", text)
	}
	return character(name), held, nil
}

func character(text string) key {
	upper := strings.ToUpper(text)
	k := key{name: text, text: text}
	switch c := upper[0]; {
	case len(upper) == 1 && c >= 'A' && c <= 'Z':
		k.code, k.number = "Key"+upper, int(c)
	case len(upper) == 1 && c >= '0' && c <= '9':
		k.code, k.number = "Digit"+upper, int(c)
	}
	return k
}

// press presses and releases a key.
func (p *page) press(ctx context.Context, k key, held int) error {
	down := map[string]any{"type": "rawKeyDown", "key": k.name, "code": k.code, "windowsVirtualKeyCode": k.number, "modifiers": held}
	if k.text != "" && held&^8 == 0 {
		down["type"], down["text"] = "keyDown", k.text
	}
	if held == 2 && k.name == "a" {
		down["commands"] = []string{"selectAll"}
	}
	up := map[string]any{"type": "keyUp", "key": k.name, "code": k.code, "windowsVirtualKeyCode": k.number, "modifiers": held}
	return p.input(ctx, "Input.dispatchKeyEvent", down, up)
}

// moveTo moves the mouse to a point.
func moveTo(ctx context.Context, p *page, at point, held int) error {
	return p.input(ctx, "Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": at.X, "y": at.Y, "modifiers": held})
}

// click moves the mouse to a point and clicks there. The second click of two is not made if the first
// one opened a dialog, which would get it.
func (p *page) click(ctx context.Context, at point, button string, count, held int) error {
	if err := moveTo(ctx, p, at, held); err != nil {
		return err
	}
	for n := 1; n <= count; n++ {
		down := map[string]any{
			"type": "mousePressed", "x": at.X, "y": at.Y, "button": button, "buttons": map[string]int{"left": 1, "right": 2, "middle": 4}[button], "clickCount": n, "modifiers": held,
		}
		up := maps.Clone(down)
		up["type"] = "mouseReleased"
		if err := p.input(ctx, "Input.dispatchMouseEvent", down, up); err != nil {
			return err
		}
	}
	return nil
}

// fillScript prepares an element for text: it has the focus, and what is in it is selected or
// the caret is at its end. For fields that take no text as it is typed, it sets the value.
const fillScript = `function(text, clear) {
	const e = this;
	const editable = e.isContentEditable, kind = e.localName;
	if (kind !== 'input' && kind !== 'textarea' && !editable) return {problem: 'it is no field that takes text, but <' + kind + '>'};
	if (e.disabled) return {problem: 'it is disabled'};
	if (e.readOnly) return {problem: 'it is read-only'};
	const type = kind === 'input' ? e.type : '';
	if (['checkbox', 'radio', 'button', 'submit', 'reset', 'image'].includes(type)) return {problem: 'it is a ' + type + ': use browser_click'};
	if (type === 'file') return {problem: 'it takes files: use browser_upload'};
	e.focus();
	if (['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range'].includes(type)) {
		const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
		const before = e.value;
		set.call(e, text);
		if (e.value === '' && text !== '') {
			set.call(e, before);
			return {problem: 'a field of type ' + type + ' does not take ' + JSON.stringify(text) + '; write it like ' + ({date: '2026-01-31', time: '13:45', 'datetime-local': '2026-01-31T13:45', month: '2026-01', week: '2026-W05', color: '#ff0000', range: '5'})[type]};
		}
		e.dispatchEvent(new Event('input', {bubbles: true}));
		e.dispatchEvent(new Event('change', {bubbles: true}));
		return {set: true};
	}
	if (editable) {
		const range = document.createRange();
		range.selectNodeContents(e);
		if (!clear) range.collapse(false);
		const selection = getSelection();
		selection.removeAllRanges();
		selection.addRange(range);
	} else if (clear) {
		e.select();
	} else {
		try { e.setSelectionRange(e.value.length, e.value.length); } catch { /* a number */ }
	}
	return {empty: editable ? e.textContent === '' : e.value === ''};
}`

// chooseScript chooses options of a select element.
const chooseScript = `function(wanted) {
	if (this.localName !== 'select') return {problem: 'it is no <select>: click it, and then the option that it shows'};
	if (this.disabled) return {problem: 'it is disabled'};
	const options = [...this.options], clean = (s) => s.trim().replace(/\s+/g, ' ');
	if (wanted.length > 1 && !this.multiple) return {problem: 'it takes one option only'};
	const found = [];
	for (const one of wanted) {
		const option = options.find((o) => clean(o.label) === clean(one)) ?? options.find((o) => o.value === one) ?? options.find((o) => clean(o.label).toLowerCase() === clean(one).toLowerCase());
		if (!option) return {problem: 'it has no option ' + JSON.stringify(one) + '; it has: ' + options.slice(0, 30).map((o) => JSON.stringify(clean(o.label))).join(', ') + (options.length > 30 ? ', and ' + (options.length - 30) + ' more' : '')};
		if (option.disabled) return {problem: 'the option ' + JSON.stringify(one) + ' is disabled'};
		found.push(option);
	}
	this.focus();
	for (const o of options) o.selected = found.includes(o);
	this.dispatchEvent(new Event('input', {bubbles: true}));
	this.dispatchEvent(new Event('change', {bubbles: true}));
	return {chosen: found.map((o) => clean(o.label))};
}`

// scrollScript scrolls an element, or what of it can be scrolled, and returns where it is.
const scrollScript = `(e, direction, amount) => {
	const scrolls = (x) => x && (x.scrollHeight > x.clientHeight + 1 || x.scrollWidth > x.clientWidth + 1) && !['visible', 'clip', 'hidden'].includes(getComputedStyle(x).overflowY);
	let at = e;
	while (at && !scrolls(at)) at = at.parentElement;
	at = at ?? document.scrollingElement ?? document.documentElement;
	const page = at === document.scrollingElement ? innerHeight : at.clientHeight;
	const by = amount > 0 ? amount : Math.max(50, page - 100);
	if (direction === 'top') at.scrollTo(0, 0);
	else if (direction === 'bottom') at.scrollTo(0, at.scrollHeight);
	else at.scrollBy({left: direction === 'left' ? -by : direction === 'right' ? by : 0, top: direction === 'up' ? -by : direction === 'down' ? by : 0, behavior: 'instant'});
	return {top: Math.round(at.scrollTop), height: at.scrollHeight, view: page, what: at === document.scrollingElement ? 'the page' : '<' + at.localName + (at.id ? ' id=' + at.id : '') + '>'};
}`
