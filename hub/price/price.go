// Package price says what model calls cost.
package price

import "math"

// Model is a model's price in US dollars for a million tokens.
type Model struct {
	Input, Output, CacheRead, CacheWrite float64
}

// Table maps "provider/model" to prices. Sources: the providers' public price
// lists.
type Table map[string]Model

// Shipped is the table that comes with this release.
func Shipped() Table {
	sonnet := Model{Input: 3, Output: 15, CacheRead: 0.30, CacheWrite: 3.75}
	opus := Model{Input: 15, Output: 75, CacheRead: 1.50, CacheWrite: 18.75}
	return Table{
		// A scripted replay calls nobody.
		"script/scripted":             {},
		"anthropic/claude-opus-4-5":   {Input: 5, Output: 25, CacheRead: 0.50, CacheWrite: 6.25},
		"anthropic/claude-opus-4-1":   opus,
		"anthropic/claude-opus-4-0":   opus,
		"anthropic/claude-sonnet-5-5": {Input: 2, Output: 10, CacheRead: 0.20, CacheWrite: 2.50},
		"anthropic/claude-sonnet-4-5": sonnet,
		"anthropic/claude-sonnet-4-0": sonnet,
		"anthropic/claude-haiku-4-5":  {Input: 1, Output: 5, CacheRead: 0.10, CacheWrite: 1.25},
		"anthropic/claude-3-5-haiku":  {Input: 0.80, Output: 4, CacheRead: 0.08, CacheWrite: 1},
	}
}

// Usage is what a call consumed, in tokens. Input excludes what was read from
// or written to the provider's cache.
type Usage struct {
	Input, Output, CacheRead, CacheWrite int64
}

// Of answers a model's price. A dated name such as claude-sonnet-4-5-20250929
// has the price of the name without its date.
func (t Table) Of(provider, model string) (Model, bool) {
	if m, ok := t[provider+"/"+model]; ok {
		return m, true
	}
	if i := len(model) - len("-20060102"); i > 0 && model[i] == '-' && digits(model[i+1:]) {
		m, ok := t[provider+"/"+model[:i]]
		return m, ok
	}
	return Model{}, false
}

func digits(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// Micros answers what a call costs in millionths of a US dollar, rounded up.
// Dollars for a million tokens are micro-dollars for one.
func (m Model) Micros(u Usage) int64 {
	return int64(math.Ceil(float64(u.Input)*m.Input + float64(u.Output)*m.Output +
		float64(u.CacheRead)*m.CacheRead + float64(u.CacheWrite)*m.CacheWrite))
}
