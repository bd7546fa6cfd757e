// Package price computes what model calls cost. A Table has the Model prices of the
// release and of the operator; a model without a price is reported as not found and
// cannot be called.
package price

import (
	"math"

	"github.com/deckhand-sh/deckhand/internal/provider"
)

// Model is a model's price in US dollars for a million tokens.
type Model struct {
	Input, Output, CacheRead, CacheWrite float64
}

// Table maps "provider/model" to prices. Sources: the providers' public price
// lists.
type Table map[string]Model

// Shipped returns the table that comes with this release. If a provider charges more for
// long prompts, the table has the higher price: a budget must suffice for both.
func Shipped() Table {
	sonnet := Model{Input: 3, Output: 15, CacheRead: 0.30, CacheWrite: 3.75}
	opus := Model{Input: 15, Output: 75, CacheRead: 1.50, CacheWrite: 18.75}
	return Table{
		// A scripted replay calls no provider.
		"script/scripted":             {},
		"anthropic/claude-opus-4-5":   {Input: 5, Output: 25, CacheRead: 0.50, CacheWrite: 6.25},
		"anthropic/claude-opus-4-1":   opus,
		"anthropic/claude-opus-4-0":   opus,
		"anthropic/claude-sonnet-5-5": {Input: 2, Output: 10, CacheRead: 0.20, CacheWrite: 2.50},
		"anthropic/claude-sonnet-4-5": sonnet,
		"anthropic/claude-sonnet-4-0": sonnet,
		"anthropic/claude-haiku-4-5":  {Input: 1, Output: 5, CacheRead: 0.10, CacheWrite: 1.25},
		"anthropic/claude-3-5-haiku":  {Input: 0.80, Output: 4, CacheRead: 0.08, CacheWrite: 1},

		"openai/gpt-5":        {Input: 1.25, Output: 10, CacheRead: 0.125},
		"openai/gpt-5-mini":   {Input: 0.25, Output: 2, CacheRead: 0.025},
		"openai/gpt-5-nano":   {Input: 0.05, Output: 0.40, CacheRead: 0.005},
		"openai/gpt-4.1":      {Input: 2, Output: 8, CacheRead: 0.50},
		"openai/gpt-4.1-mini": {Input: 0.40, Output: 1.60, CacheRead: 0.10},
		"openai/gpt-4.1-nano": {Input: 0.10, Output: 0.40, CacheRead: 0.025},
		"openai/gpt-4o":       {Input: 2.50, Output: 10, CacheRead: 1.25},
		"openai/gpt-4o-mini":  {Input: 0.15, Output: 0.60, CacheRead: 0.075},
		"openai/o3":           {Input: 2, Output: 8, CacheRead: 0.50},
		"openai/o4-mini":      {Input: 1.10, Output: 4.40, CacheRead: 0.275},

		// Models that embed texts.
		"openai/text-embedding-3-small": {Input: 0.02},
		"openai/text-embedding-3-large": {Input: 0.13},
		"gemini/gemini-embedding-001":   {Input: 0.15},
		"mistral/mistral-embed":         {Input: 0.10},

		"gemini/gemini-2.5-pro":        {Input: 2.50, Output: 15, CacheRead: 0.625},
		"gemini/gemini-2.5-flash":      {Input: 0.30, Output: 2.50, CacheRead: 0.075},
		"gemini/gemini-2.5-flash-lite": {Input: 0.10, Output: 0.40, CacheRead: 0.025},
		"gemini/gemini-2.0-flash":      {Input: 0.10, Output: 0.40, CacheRead: 0.025},

		"mistral/mistral-large-latest":  {Input: 2, Output: 6, CacheRead: 2},
		"mistral/mistral-medium-latest": {Input: 0.40, Output: 2, CacheRead: 0.40},
		"mistral/mistral-small-latest":  {Input: 0.10, Output: 0.30, CacheRead: 0.10},
		"mistral/codestral-latest":      {Input: 0.30, Output: 0.90, CacheRead: 0.30},

		"qwen/qwen-max":   {Input: 1.60, Output: 6.40, CacheRead: 1.60},
		"qwen/qwen-plus":  {Input: 1.20, Output: 12, CacheRead: 1.20},
		"qwen/qwen-flash": {Input: 0.25, Output: 2, CacheRead: 0.25},
	}
}

// FromMicros returns a price from micro-dollars for a million tokens.
func FromMicros(input, output, cacheRead, cacheWrite int64) Model {
	const dollar = 1e6
	return Model{float64(input) / dollar, float64(output) / dollar, float64(cacheRead) / dollar, float64(cacheWrite) / dollar}
}

// Usage is what a call consumed, in tokens. Input excludes what was read from
// or written to the provider's cache.
type Usage struct {
	Input, Output, CacheRead, CacheWrite int64
	// CacheWriteHour is the part of CacheWrite that is kept for an hour.
	CacheWriteHour int64
}

// hourWrite is what writing to a cache for an hour costs, relative to input.
// https://platform.claude.com/docs/en/build-with-claude/prompt-caching
const hourWrite = 2

// Of returns a model's price. A dated name such as claude-sonnet-4-5-20250929 has the
// price of the name without its date.
func (t Table) Of(name, model string) (Model, bool) {
	if m, ok := t[name+"/"+model]; ok {
		return m, true
	}
	m, ok := t[name+"/"+provider.Undated(model)]
	return m, ok
}

// Micros returns what a call costs in millionths of a US dollar, rounded up.
// Dollars for a million tokens are micro-dollars for one.
func (m Model) Micros(u Usage) int64 {
	return int64(math.Ceil(float64(u.Input)*m.Input + float64(u.Output)*m.Output +
		float64(u.CacheRead)*m.CacheRead + float64(u.CacheWrite-u.CacheWriteHour)*m.CacheWrite + float64(u.CacheWriteHour)*hourWrite*m.Input))
}

// LimitTokens returns how many tokens of a call count for a limit of tokens: those that
// were read from the cache count at their share of the price of input.
func (m Model) LimitTokens(u Usage) int64 {
	share := 1.0
	if m.Input > 0 {
		share = min(m.CacheRead/m.Input, 1)
	}
	return u.Input + u.Output + u.CacheWrite + int64(math.Ceil(float64(u.CacheRead)*share))
}

// Dearest turns what a call may use into the dearest way to use it: input
// that is written to a cache may cost more than input that is only read. u.CacheWriteHour
// is the part of the input that may be cached for an hour.
func (m Model) Dearest(u Usage) Usage {
	if m.CacheWrite > m.Input || u.CacheWriteHour > 0 {
		u.CacheWrite, u.Input = u.CacheWrite+u.Input, 0
	}
	return u
}
