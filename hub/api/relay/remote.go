package relay

import (
	"bytes"
	"encoding/json"
	"slices"
)

// holders are the fields that lead from a request to the content that a model reads. A
// tool's arguments are not among them: they may have any field.
var holders = []string{
	"messages", "system", "input", "contents", "systemInstruction", "content", "output", "parts", "functionResponse",
}

// named are the fields of a piece of content that names it instead of holding
// it, in any format.
var named = []string{"file_url", "file_id", "fileData"}

// held refuses content that a request only references: the provider would fetch it, and
// the bytes of the request would not bound the cost of the call.
func held(m map[string]json.RawMessage) error {
	for _, name := range holders {
		if raw := m[name]; len(raw) > 0 {
			if err := heldIn(raw); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin is how the fields begin that name content, or may.
var begin = [][]byte{[]byte("file"), []byte("source"), []byte("image")}

// mayName reports whether any of those fields can occur in a JSON text, at any depth.
// Most requests are a long transcript without them, which each call repeats, so such a
// request is not parsed for them. A letter that is written as an escape counts as any of
// them.
func mayName(raw []byte) bool {
	for rest := raw; ; {
		at := bytes.IndexByte(rest, '"')
		if at < 0 {
			break
		}
		rest = rest[at+1:]
		for _, name := range begin {
			if len(rest) >= len(name) && rest[0]|0x20 == name[0] && bytes.EqualFold(rest[:len(name)], name) {
				return true
			}
		}
	}
	escape := []byte(`\u00`)
	for rest := raw; ; {
		at := bytes.Index(rest, escape)
		if at < 0 {
			return false
		}
		rest = rest[at+len(escape):]
		if len(rest) > 0 && rest[0] >= '4' && rest[0] <= '7' { // the letters and _
			return true
		}
	}
}

func heldIn(raw json.RawMessage) error {
	switch raw = bytes.TrimSpace(raw); {
	case len(raw) == 0, !mayName(raw):
		return nil
	case raw[0] == '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return nil
		}
		for _, item := range list {
			if err := heldIn(item); err != nil {
				return err
			}
		}
	case raw[0] == '{':
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) != nil {
			return nil
		}
		if name := likened(m, slices.Concat(named, []string{"source", "image_url", "file"})...); name != "" {
			return notHeld(name)
		}
		for _, name := range named {
			if m[name] != nil {
				return notHeld(name)
			}
		}
		if err := heldSource(m); err != nil {
			return err
		}
		return held(m)
	}
	return nil
}

// heldSource checks the fields that may reference content or contain it: Anthropic's
// source, and OpenAI's image_url and file.
func heldSource(m map[string]json.RawMessage) error {
	var source struct {
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
	}
	if raw := m["source"]; raw != nil && exactly(raw, &source) == nil {
		if name := likened(fieldsOf(raw), "type", "url", "file_id"); name != "" {
			return notHeld("source, with a field " + name + ",")
		}
		if source.Type == "url" || source.Type == "file" {
			return notHeld("source of type " + source.Type)
		}
		if err := heldIn(source.Content); err != nil {
			return err
		}
	}
	if raw := m["image_url"]; raw != nil {
		address := text(raw)
		var image struct {
			URL string `json:"url"`
		}
		if address == "" && exactly(raw, &image) == nil && likened(fieldsOf(raw), "url") == "" {
			address = image.URL
		}
		if !bytes.HasPrefix([]byte(address), []byte("data:")) {
			return notHeld("image_url")
		}
	}
	if raw := m["file"]; raw != nil {
		return heldIn(raw)
	}
	return nil
}

func notHeld(what string) error {
	return invalid("the request names content by its %s, which the provider would fetch: send the bytes", what)
}
