// Package provider lists the model providers and web search engines that
// Deckhand supports: the wire format of each, its base URL, the format of its
// API keys, and the capabilities of its models. Hub, worker and command line
// share this list.
package provider

import "strings"

// Format is a wire format of model calls.
type Format string

// The formats.
const (
	// Messages is Anthropic's Messages API.
	Messages Format = "anthropic"
	// OpenAI is OpenAI's API, which many others speak.
	OpenAI Format = "openai"
	// Gemini is Google's Generative Language API.
	Gemini Format = "gemini"
	// Script calls no provider: a scripted replay.
	Script Format = "script"
	// Those of search engines, which no model speaks.
	SearXNG Format = "searxng"
	Brave   Format = "brave"
	Exa     Format = "exa"
	SerpAPI Format = "serpapi"
)

// Searches reports whether it is a search engine's.
func (f Format) Searches() bool { return f == SearXNG || f == Brave || f == Exa || f == SerpAPI }

// Provider is one family of models, or a search engine.
type Provider struct {
	// Name is what personas and credentials call it, Title what people do.
	Name, Title string
	Format      Format
	// BaseURL is where it is, unless a credential says otherwise; empty where
	// there is no place that suits everybody.
	BaseURL string
	// KeyPrefix begins every key of the provider's own; empty for any.
	KeyPrefix string
	// KeyOptional says that a server may want no key: one of your own.
	KeyOptional bool
	// Responses says that models are asked by OpenAI's responses instead of its
	// chat completions, which keep no reasoning between turns.
	Responses bool
	// SilentUsage says that a stream of chat completions reports its usage
	// without being asked, and that asking is an error.
	SilentUsage bool
	// ShortCallIDs says that the id of a tool's call has nine letters and digits,
	// and that others are refused.
	ShortCallIDs bool
	// DocsURL is its documentation, and KeysURL the page on which keys are made; empty for a
	// server of one's own.
	DocsURL, KeysURL string
	// Login is how one logs in to it instead of a key; nil where one cannot.
	Login *Login
}

// Login is a provider's own authorisation server of OAuth 2.0.
type Login struct {
	AuthURL, TokenURL string
	Scopes            []string
}

var all = []Provider{
	{Name: "anthropic", Title: "Anthropic", DocsURL: "https://docs.anthropic.com", KeysURL: "https://console.anthropic.com/settings/keys", Format: Messages, BaseURL: "https://api.anthropic.com", KeyPrefix: "sk-ant-"},
	{Name: "openai", Title: "OpenAI", DocsURL: "https://platform.openai.com/docs", KeysURL: "https://platform.openai.com/api-keys", Format: OpenAI, BaseURL: "https://api.openai.com/v1", KeyPrefix: "sk-", Responses: true},
	{Name: "gemini", Title: "Google Gemini", DocsURL: "https://ai.google.dev/gemini-api/docs", KeysURL: "https://aistudio.google.com/apikey", Format: Gemini, BaseURL: "https://generativelanguage.googleapis.com", Login: &Login{ //nolint:gosec // addresses, no credentials
		AuthURL: "https://accounts.google.com/o/oauth2/v2/auth", TokenURL: "https://oauth2.googleapis.com/token",
		Scopes: []string{"https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/generative-language.retriever"},
	}},
	{Name: "qwen", Title: "Qwen", DocsURL: "https://www.alibabacloud.com/help/en/model-studio", KeysURL: "https://modelstudio.console.alibabacloud.com/?tab=model#/api-key", Format: OpenAI, BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", KeyPrefix: "sk-"},
	{Name: "mistral", Title: "Mistral", DocsURL: "https://docs.mistral.ai", KeysURL: "https://console.mistral.ai/api-keys", Format: OpenAI, BaseURL: "https://api.mistral.ai/v1", SilentUsage: true, ShortCallIDs: true},
	{Name: "ollama", Title: "Ollama", DocsURL: "https://docs.ollama.com", Format: OpenAI, BaseURL: "http://127.0.0.1:11434/v1", KeyOptional: true},
	{Name: "vllm", Title: "vLLM", DocsURL: "https://docs.vllm.ai", Format: OpenAI, KeyOptional: true},
	{Name: "compatible", Title: "Another server with OpenAI's API", Format: OpenAI, KeyOptional: true},
	{Name: "script", Format: Script, KeyOptional: true},
	{Name: "searxng", Title: "SearXNG", DocsURL: "https://docs.searxng.org", Format: SearXNG, KeyOptional: true},
	{Name: "brave", Title: "Brave Search", DocsURL: "https://api-dashboard.search.brave.com/app/documentation", KeysURL: "https://api-dashboard.search.brave.com/app/keys", Format: Brave, BaseURL: "https://api.search.brave.com/res/v1"},
	{Name: "exa", Title: "Exa", DocsURL: "https://docs.exa.ai", KeysURL: "https://dashboard.exa.ai/api-keys", Format: Exa, BaseURL: "https://api.exa.ai"},
	{Name: "serpapi", Title: "SerpApi", DocsURL: "https://serpapi.com/search-api", KeysURL: "https://serpapi.com/manage-api-key", Format: SerpAPI, BaseURL: "https://serpapi.com"},
}

// Of returns a provider by its name.
func Of(name string) (Provider, bool) {
	for _, p := range all {
		if p.Name == name {
			return p, true
		}
	}
	return Provider{}, false
}

// Runnable returns the names that workers can run, which are those that a
// persona may name.
func Runnable() []string {
	var out []string
	for _, p := range all {
		if !p.Format.Searches() {
			out = append(out, p.Name)
		}
	}
	return out
}

// Engines returns the names of the search engines, in the order in which the one
// to ask is chosen where several are connected.
func Engines() []string {
	var out []string
	for _, p := range all {
		if p.Format.Searches() {
			out = append(out, p.Name)
		}
	}
	return out
}

// Connectable returns the names of those that one connects to.
func Connectable() []string {
	var out []string
	for _, p := range all {
		if p.Format != Script {
			out = append(out, p.Name)
		}
	}
	return out
}

// undated returns a model's name without the date of its release, such as
// -20250929 or -2025-08-07, and whether it had one.
func undated(model string) (string, bool) {
	digits := 0
	i := len(model)
	for ; i > 0 && (model[i-1] == '-' || '0' <= model[i-1] && model[i-1] <= '9') && digits < 8; i-- {
		if model[i-1] != '-' {
			digits++
		}
	}
	if digits != 8 || i < 2 || model[i-1] != '-' {
		return model, false
	}
	switch date := model[i:]; {
	case !strings.Contains(date, "-"):
	case len(date) == len("2006-01-02") && date[4] == '-' && date[7] == '-':
	default:
		return model, false
	}
	return model[:i-1], true
}

// Undated returns a model's name without the date of its release: what is
// known of a model holds for all of its dates.
func Undated(model string) string {
	name, _ := undated(model)
	return name
}
