package browser

// extractScript returns a part of a page as text: its text, Markdown, links or tables. Hidden
// text is left out; what is in open shadow trees and frames of the same site is included.
const extractScript = `(root, as, most) => {
	const flat = (s) => s.replace(/[ \t\r\n\u00a0]+/g, ' ');
	const hidden = (e) => {
		if (['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'HEAD'].includes(e.nodeName)) return true;
		return e.checkVisibility ? !e.checkVisibility({visibilityProperty: true, opacityProperty: true}) && getComputedStyle(e).display !== 'contents' : false;
	};
	const kids = (e) => {
		if (e.localName === 'slot') { const a = e.assignedNodes(); if (a.length) return a; }
		if (e.localName === 'iframe') { try { return e.contentDocument ? [e.contentDocument.body] : []; } catch { return []; } }
		return (e.shadowRoot ?? e).childNodes;
	};
	const every = (e, test, out = []) => {
		if (e.nodeType === 1) { if (hidden(e)) return out; if (test(e)) out.push(e); }
		for (const k of kids(e)) if (k && k.nodeType === 1) every(k, test, out);
		return out;
	};
	const address = (e) => { const u = e.href; return typeof u === 'string' ? u : ''; };
	if (as === 'links') {
		const seen = new Set(), lines = [];
		for (const a of every(root, (e) => e.localName === 'a' && address(e))) {
			const line = flat(a.innerText || a.getAttribute('aria-label') || '').trim().slice(0, 150) + ' -> ' + address(a);
			if (!seen.has(line)) { seen.add(line); lines.push(line); }
		}
		return lines.join('\n').slice(0, most);
	}
	if (as === 'table') {
		const tables = every(root, (e) => e.localName === 'table' || ['table', 'grid', 'treegrid'].includes(e.getAttribute('role')));
		const quote = (s) => /[",\n]/.test(s) ? '"' + s.replace(/"/g, '""') + '"' : s;
		return tables.map((t, i) => {
			const caption = flat(t.caption?.innerText ?? t.getAttribute('aria-label') ?? '').trim();
			const rows = every(t, (e) => e.localName === 'tr' || e.getAttribute('role') === 'row').map((r) =>
				[...(r.cells ?? every(r, (e) => ['cell', 'gridcell', 'columnheader', 'rowheader'].includes(e.getAttribute('role'))))].map((c) => quote(flat(c.innerText).trim())).join(','));
			return (tables.length > 1 || caption ? '# table ' + (i + 1) + (caption ? ': ' + caption : '') + '\n' : '') + rows.join('\n');
		}).join('\n\n').slice(0, most);
	}
	const out = [];
	let size = 0;
	const put = (s) => { if (size < most * 2) { out.push(s); size += s.length; } };
	const md = as === 'markdown';
	const block = new Set(['P', 'DIV', 'SECTION', 'ARTICLE', 'HEADER', 'FOOTER', 'MAIN', 'NAV', 'ASIDE', 'UL', 'OL', 'LI', 'TABLE', 'TR', 'FORM', 'FIELDSET', 'BLOCKQUOTE', 'PRE', 'H1', 'H2', 'H3', 'H4', 'H5', 'H6', 'DL', 'DT', 'DD', 'FIGURE', 'HR', 'DETAILS', 'SUMMARY', 'ADDRESS', 'DIALOG', 'BODY']);
	const walk = (e, depth) => {
		if (!e || size >= most * 2 || depth > 300) return;
		if (e.nodeType === 3) { put(flat(e.data)); return; }
		if (e.nodeType !== 1 && e.nodeType !== 9 && e.nodeType !== 11) return;
		if (e.nodeType === 1 && hidden(e)) return;
		const name = e.nodeName, edge = block.has(name);
		if (edge) put('\n');
		if (name === 'BR') put('\n');
		if (name === 'PRE') { put(md ? '\n~~~\n' + e.innerText + '\n~~~\n' : e.innerText); put('\n'); return; }
		if (name === 'INPUT' && !['hidden', 'password', 'submit', 'button', 'checkbox', 'radio'].includes(e.type) && e.value) put(' ' + e.value + ' ');
		if (name === 'TEXTAREA' && e.value) { put(e.value); return; }
		if (name === 'SELECT') { put([...e.selectedOptions].map((o) => flat(o.label)).join(', ')); return; }
		if (name === 'IMG' && e.alt) put(md ? '![' + flat(e.alt) + ']' : flat(e.alt));
		if (md && /^H[1-6]$/.test(name)) put('#'.repeat(+name[1]) + ' ');
		if (md && name === 'LI') put('- ');
		if (md && name === 'HR') put('---\n');
		if (md && name === 'A' && address(e)) put('[');
		if (md && name === 'CODE') put('` + "`" + `');
		for (const k of kids(e)) walk(k, depth + 1);
		if (md && name === 'CODE') put('` + "`" + `');
		if (md && name === 'A' && address(e)) put('](' + address(e) + ')');
		if (name === 'TD' || name === 'TH') put(' | ');
		if (edge) put('\n');
		if (md && ['P', 'H1', 'H2', 'H3', 'H4', 'H5', 'H6', 'UL', 'OL', 'TABLE', 'BLOCKQUOTE'].includes(name)) put('\n');
	};
	walk(root, 0);
	return out.join('').replace(/ *\n */g, '\n').replace(md ? /\n{3,}/g : /\n{2,}/g, md ? '\n\n' : '\n').replace(/ {2,}/g, ' ').trim().slice(0, most);
}`

// manyScript returns the texts of all elements that a selector matches.
const manyScript = `(selector, most) => {
	const out = [];
	const look = (root) => {
		for (const e of root.querySelectorAll(selector)) out.push((e.innerText ?? e.textContent ?? '').trim().replace(/\s+/g, ' ') || e.value || e.getAttribute('src') || '');
		for (const e of root.querySelectorAll('*')) if (e.shadowRoot) look(e.shadowRoot);
	};
	look(document);
	return {count: out.length, text: out.slice(0, 500).map((s, i) => (i + 1) + '. ' + s.slice(0, 500)).join('\n').slice(0, most)};
}`
