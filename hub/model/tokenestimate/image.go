package tokenestimate

import (
	"encoding/base64"
	stdimage "image"
	_ "image/gif"  // for its size
	_ "image/jpeg" // for its size
	_ "image/png"  // for its size
	"slices"
	"strings"
)

// size returns the width and height of an image in Base64, or in a data: URL; 0 if they
// cannot be read.
func size(value string) (w, h int) {
	if strings.HasPrefix(value, "data:") {
		_, value, _ = strings.Cut(value, ",")
	}
	config, _, err := stdimage.DecodeConfig(base64.NewDecoder(base64.StdEncoding, strings.NewReader(value)))
	if err != nil {
		return 0, 0
	}
	return config.Width, config.Height
}

// smallImages are the families of Claude that see at most 1568 tokens of an image, scaled to an
// edge of at most 1568 pixels; newer ones see 4784 of one with an edge of 2576.
var smallImages = []string{"claude-3", "claude-haiku-4-5", "claude-sonnet-4-0", "claude-sonnet-4-2", "claude-sonnet-4-5", "claude-sonnet-4-6",
	"claude-opus-4-0", "claude-opus-4-1", "claude-opus-4-2", "claude-opus-4-5", "claude-opus-4-6"}

// image estimates the tokens of an image by the provider's formula. One whose size is not
// known counts as the largest.
func image(providerName, model, value string) int {
	w, h := size(value)
	if w <= 0 || h <= 0 {
		w, h = 8000, 8000
	}
	switch providerName {
	case "anthropic":
		// https://platform.claude.com/docs/en/build-with-claude/vision: a token for each patch
		// of 28 pixels by 28, of an image that is scaled down to an edge and to a number of
		// tokens. The count by area, w*h/750, which the page had before, is lower for small
		// images.
		edge, most := 2576, 4784
		if slices.ContainsFunc(smallImages, func(prefix string) bool { return strings.HasPrefix(model, prefix) }) {
			edge, most = 1568, 1600
		}
		if long := max(w, h); long > edge {
			w, h = (w*edge+long-1)/long, (h*edge+long-1)/long
		}
		return min(max(patches(w, h, 28), w*h/750+1), most)
	case "openai":
		return openaiImage(model, w, h)
	case "gemini":
		// https://ai.google.dev/gemini-api/docs/tokens: 258 for a small image, or for each of
		// its tiles, whose size depends on the shorter side; 1120 at the resolution of models
		// from Gemini 3 on.
		if !strings.HasPrefix(model, "gemini-1") && !strings.HasPrefix(model, "gemini-2") {
			return 1120
		}
		if w <= 384 && h <= 384 {
			return 258
		}
		tile := min(max(min(w, h)*2/3, 256), 768)
		return 258 * ((w + tile - 1) / tile) * ((h + tile - 1) / tile)
	default:
		// Patches of 14 pixels by 14, of models that are served by many programs, four to a
		// token, of at most 4096.
		return min(w*h/(14*14)+64, 4096)
	}
}

// patches is how many squares of a number of pixels cover an image.
func patches(w, h, side int) int { return ((w + side - 1) / side) * ((h + side - 1) / side) }

// openaiTiles are the families of OpenAI that count tiles of 512 pixels; others count patches.
var openaiTiles = []string{"gpt-4", "gpt-5-20", "gpt-5-chat", "gpt-5-codex", "gpt-5-pro", "gpt-5.1", "o1", "o3", "chatgpt-4o"}

// openaiPatches are what patches of 32 pixels cost of which families, and how many of them a
// model sees at most. The first one that fits counts. The guide's factors for the small models
// of GPT-5 are higher than what was measured of their API.
var openaiPatches = []struct {
	prefix string
	factor float64
	most   int
}{
	{"gpt-4.1-mini", 1.62, 1536}, {"gpt-4.1-nano", 2.46, 1536}, {"o4-mini", 1.72, 1536}, {"codex-mini", 1.72, 1536},
	{"gpt-5-mini", 1.62, 1536}, {"gpt-5-nano", 2.46, 1536}, {"gpt-5.4-mini", 1.62, 2500}, {"gpt-5.4-nano", 2.46, 2500},
	{"gpt-5.2", 1.2, 1536}, {"gpt-5.3", 1.2, 1536}, {"gpt-5.", 1.2, 10_000},
	// Newer ones saw all of the largest image that was measured.
	{"", 1.2, 20_000},
}

// openaiImage is https://platform.openai.com/docs/guides/images-vision#calculating-costs.
func openaiImage(model string, w, h int) int {
	tiled := model == "gpt-5" || slices.ContainsFunc(openaiTiles, func(prefix string) bool { return strings.HasPrefix(model, prefix) })
	if tiled && !strings.HasPrefix(model, "gpt-4.1-mini") && !strings.HasPrefix(model, "gpt-4.1-nano") {
		return openaiTiled(model, w, h)
	}
	for _, of := range openaiPatches {
		if strings.HasPrefix(model, of.prefix) {
			return int(float64(min(patches(w, h, 32), of.most))*of.factor) + 1
		}
	}
	return 0 // never: the last one fits all
}

// openaiTiled counts an image by tiles of 512 pixels. It is scaled into a square of 2048, and
// then to a shortest side of 768.
func openaiTiled(model string, w, h int) int {
	base, tile := 85, 170
	if strings.HasPrefix(model, "gpt-4o-mini") {
		base, tile = 2833, 5667
	}
	scale := min(1, 2048/float64(max(w, h)))
	scale = min(scale, 768/float64(min(w, h)))
	tiles := func(n int) int { return int(float64(n)*scale+511) / 512 }
	return base + tile*max(1, tiles(w))*max(1, tiles(h))
}
