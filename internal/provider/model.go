package provider

import "strings"

// Model is what a model can do.
type Model struct {
	// ContextTokens is how much it can read, and OutputTokens how much it can
	// write in one call; 0 for unknown.
	ContextTokens, OutputTokens int64
	// CacheTokens is the length of a prompt, in tokens, from which the provider caches it;
	// 0 if it is not known to.
	CacheTokens int64
	// Thinks says that it may think out of sight, in tokens that are paid for.
	Thinks bool
	// Images says that it can see.
	Images bool
	// ResultImages says that the result of a tool may hold an image.
	ResultImages bool
}

// known maps the beginning of a model's name to what it can do; the longest one
// that fits counts. Sources: the providers' model pages.
var known = map[string]map[string]Model{
	"anthropic": {
		"claude-":           {ContextTokens: 200_000, OutputTokens: 64_000, CacheTokens: 1024, Thinks: true, Images: true, ResultImages: true},
		"claude-opus-4-5":   {ContextTokens: 200_000, OutputTokens: 64_000, CacheTokens: 4096, Thinks: true, Images: true, ResultImages: true},
		"claude-haiku-4-5":  {ContextTokens: 200_000, OutputTokens: 64_000, CacheTokens: 4096, Thinks: true, Images: true, ResultImages: true},
		"claude-opus-4-1":   {ContextTokens: 200_000, OutputTokens: 32_000, CacheTokens: 1024, Thinks: true, Images: true, ResultImages: true},
		"claude-opus-4-0":   {ContextTokens: 200_000, OutputTokens: 32_000, CacheTokens: 1024, Thinks: true, Images: true, ResultImages: true},
		"claude-3-5-haiku":  {ContextTokens: 200_000, OutputTokens: 8_192, CacheTokens: 2048, Images: true, ResultImages: true},
		"claude-sonnet-5-5": {ContextTokens: 1_000_000, OutputTokens: 128_000, CacheTokens: 1024, Thinks: true, Images: true, ResultImages: true},
	},
	"openai": {
		"gpt-5":   {ContextTokens: 400_000, OutputTokens: 128_000, CacheTokens: 1024, Thinks: true, Images: true, ResultImages: true},
		"gpt-3.5": {ContextTokens: 16_385, OutputTokens: 4_096},
		"gpt-4":   {ContextTokens: 128_000, OutputTokens: 4_096},
		"gpt-4.1": {ContextTokens: 1_047_576, OutputTokens: 32_768, CacheTokens: 1024, Images: true, ResultImages: true},
		"gpt-4o":  {ContextTokens: 128_000, OutputTokens: 16_384, CacheTokens: 1024, Images: true, ResultImages: true},
		"o3":      {ContextTokens: 200_000, OutputTokens: 100_000, CacheTokens: 1024, Thinks: true, Images: true, ResultImages: true},
		"o4-mini": {ContextTokens: 200_000, OutputTokens: 100_000, CacheTokens: 1024, Thinks: true, Images: true, ResultImages: true},
	},
	"gemini": {
		"gemini-2.5": {ContextTokens: 1_048_576, OutputTokens: 65_536, CacheTokens: 4096, Thinks: true, Images: true},
		"gemini-2.0": {ContextTokens: 1_048_576, OutputTokens: 8_192, Images: true},
	},
	"mistral": {
		"mistral-":  {ContextTokens: 131_072},
		"codestral": {ContextTokens: 262_144},
		"pixtral-":  {ContextTokens: 131_072, Images: true},
	},
	"qwen": {
		"qwen":     {ContextTokens: 262_144, Thinks: true},
		"qwen3-":   {ContextTokens: 262_144, OutputTokens: 65_536, Thinks: true},
		"qwen3-vl": {ContextTokens: 262_144, OutputTokens: 32_768, Thinks: true, Images: true},
		"qwen-vl":  {ContextTokens: 131_072, OutputTokens: 8_192, Images: true},
	},
}

// ModelInfo returns what a model can do; of one that is not known, that it may
// think and cannot see, which errs on the safe side.
func ModelInfo(name, model string) Model {
	best, out := -1, Model{Thinks: true}
	for begin, m := range known[name] {
		if strings.HasPrefix(model, begin) && len(begin) > best {
			best, out = len(begin), m
		}
	}
	return out
}
