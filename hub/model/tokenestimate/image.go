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

// smallImages are the families of Claude that see at most 1600 tokens of an image; newer ones
// see more.
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
		// https://platform.claude.com/docs/en/build-with-claude/vision: larger ones are scaled
		// down to a number of tokens.
		most := 4784
		if slices.ContainsFunc(smallImages, func(prefix string) bool { return strings.HasPrefix(model, prefix) }) {
			most = 1600
		}
		return min(w*h/750+1, most)
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

// openaiImage is https://platform.openai.com/docs/guides/images-vision#calculating-costs.
func openaiImage(model string, w, h int) int {
	for _, of := range []struct {
		prefix string
		factor float64
	}{{"gpt-4.1-mini", 1.62}, {"gpt-4.1-nano", 2.46}, {"gpt-5-mini", 1.62}, {"gpt-5-nano", 2.46}, {"o4-mini", 1.72}} {
		if strings.HasPrefix(model, of.prefix) {
			return int(float64(min(((w+31)/32)*((h+31)/32), 1536))*of.factor) + 1
		}
	}
	base, tile := 85, 170
	if strings.HasPrefix(model, "gpt-4o-mini") {
		base, tile = 2833, 5667
	}
	// It is scaled into a square of 2048, and then to a shortest side of 768.
	scale := min(1, 2048/float64(max(w, h)))
	scale = min(scale, 768/float64(min(w, h)))
	tiles := func(n int) int { return int(float64(n)*scale+511) / 512 }
	return base + tile*max(1, tiles(w))*max(1, tiles(h))
}
