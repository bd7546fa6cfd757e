// Package tokenestimate estimates the tokens of a prompt from the request of a model call,
// before a provider has counted them. Text estimates those of a text, Prompt those of a
// whole request, and Next corrects the estimate by what the provider counted for the call
// before.
//
// Providers other than OpenAI do not publish their vocabularies, and counting with one of
// those that are public would cost more than the call's other work in the hub. The
// estimate looks at words, digits and signs instead, and is meant to be a little too high:
// docs/providers.md has what was measured.
package tokenestimate

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/deckhand-sh/deckhand/internal/provider"
)

const (
	// opening are tokens that a provider adds to each request, with tools in it.
	opening = 400
	// each are tokens around a value of a request: a message, a part of it, a field of a
	// tool's schema.
	each = 0.5
	// unknown is how much higher the estimate is for providers whose vocabulary is not
	// public.
	unknown = 1.2
)

// opaque are objects that a model or a tool wrote: what looks like an image in them is
// text. "input" is one only where it is an object: in OpenAI's Responses it is the list of
// messages.
var opaque = []string{"input", "args", "response", "parameters", "input_schema"}

// unread are fields that the provider does not pass on to its model.
var unread = map[string]bool{"signature": true, "thoughtSignature": true, "cache_control": true, "model": true}

// Prompt estimates the input tokens of a call's request to a model. A request that cannot
// be read counts as a token for each byte.
func Prompt(p provider.Provider, model string, body []byte) int64 {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	tokens, images := 0.0, 0
	name, hidden := "", 0 // hidden is the depth from which objects are opaque
	var names []string
	for {
		depth := d.StackDepth()
		within, n := d.StackIndex(depth)
		isName := within == jsontext.KindBeginObject && n%2 == 0
		t, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return int64(len(body))
		}
		switch t.Kind() {
		case jsontext.KindBeginObject, jsontext.KindBeginArray:
			names = append(names, name)
			if hidden == 0 && within == jsontext.KindBeginObject && t.Kind() == jsontext.KindBeginObject && slices.Contains(opaque, name) {
				hidden = len(names)
			}
			tokens += each
		case jsontext.KindEndObject, jsontext.KindEndArray:
			if hidden == len(names) {
				hidden = 0
			}
			name, names = names[len(names)-1], names[:len(names)-1]
		case jsontext.KindString:
			value := t.String()
			switch {
			case isName:
				name = value
				tokens += Text(value)
			case unread[name] && hidden == 0:
			case hidden == 0 && isImage(name, value):
				images += image(p.Name, model, value)
			default:
				tokens += Text(value) + each
			}
		default:
			tokens += 1 + each
		}
	}
	if p.Name != "openai" {
		tokens *= unknown
	}
	return int64(tokens) + int64(images) + opening
}

// begins are the first characters of images in Base64: PNG, JPEG, GIF, WebP.
var begins = []string{"iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR"}

// isImage reports whether a field of a message is an image in Base64, as the formats have
// it: Anthropic's source.data, Gemini's inlineData.data, OpenAI's url or image_url.
func isImage(name, value string) bool {
	switch name {
	case "data":
		return slices.ContainsFunc(begins, func(begin string) bool { return strings.HasPrefix(value, begin) })
	case "url", "image_url":
		return strings.HasPrefix(value, "data:image/")
	}
	return false
}

// Seen is what is known of a task's latest call of a model: its estimate, and what the
// provider counted; 0 if nothing is.
type Seen struct{ Estimate, Counted int64 }

const (
	// growing is by how much the new part of a prompt may be denser than its estimate, and
	// steady by how much the count of the old part may differ.
	growing, steady = 1.25, 1.05
)

// Next corrects the estimate of a call by the call before: what that had costs the same
// again, and the estimate is for what is new. A prompt that is not longer than the last one
// was shortened: the ratio of the last call holds for it.
func Next(estimate int64, seen Seen) int64 {
	if seen.Estimate <= 0 || seen.Counted <= 0 {
		return estimate
	}
	if estimate >= seen.Estimate {
		return int64(steady*float64(seen.Counted) + growing*float64(estimate-seen.Estimate))
	}
	ratio := min(max(float64(seen.Counted)/float64(seen.Estimate), 0.5), 2)
	return int64(growing * ratio * float64(estimate))
}
