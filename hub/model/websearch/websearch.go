// Package websearch queries the web search engines that an organisation has connected:
// SearXNG, Brave, Exa and SerpAPI. Engine is one of them. The key is sent to the engine
// inside of TLS, over the connection that the caller provides: hub/tool's web_search
// connects through a node.
//
// Responses are limited in size and untrusted: markup and invisible characters are
// removed. Errors never contain the key.
package websearch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/html"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/provider"
)

// Engine is a search engine as it was connected.
type Engine struct {
	Provider provider.Provider
	// BaseURL is the address of its API, without a slash at the end.
	BaseURL string
	// Key is empty for a server that wants none.
	Key config.Secret
}

// Query is what is searched for.
type Query struct {
	// Text is 1 to 400 characters, which is what all engines take.
	Text string
	// Count is how many results are wanted, 1 to 20.
	Count int
}

// Result is one place.
type Result struct {
	// Title, and URL, which begins with http:// or https://.
	Title, URL string
	// Text is the engine's excerpt; empty if it has none.
	Text string
	// Date is when it was published, as the engine writes it; mostly empty.
	Date string
}

const (
	// maxAnswer bounds an engine's answer, in bytes.
	maxAnswer = 4 << 20
	// Of a result, in bytes.
	maxTitle, maxURL, maxText, maxDate = 300, 2000, 600, 40
	// quoted is how much of a page Exa is asked to quote, in characters.
	quoted = 500
)

// hit is a result in the format of any of the engines.
type hit struct {
	Title       string   `json:"title"`
	URL         string   `json:"url"`
	Link        string   `json:"link"`
	Content     string   `json:"content"`
	Description string   `json:"description"`
	Snippet     string   `json:"snippet"`
	Highlights  []string `json:"highlights"`
	Date        string   `json:"date"`
	Published   string   `json:"publishedDate"`
	PageAge     string   `json:"page_age"`
}

// found is an answer of any engine.
type found struct {
	Results []hit `json:"results"`
	Organic []hit `json:"organic_results"`
	Web     struct {
		Results []hit `json:"results"`
	} `json:"web"`
	// Error is SerpAPI's error, which it also sends for no results.
	Error string `json:"error"`
}

// Search asks an engine. What the engine refuses is a fault with its name: of kind
// Precondition (AGENT_020) for the key, Exhausted (AGENT_011) for too many
// questions, Unavailable for all else.
func Search(ctx context.Context, client *http.Client, e Engine, q Query) ([]Result, error) {
	req, err := e.request(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("make a question to %s: %w", e.Provider.Name, err)
	}
	res, err := client.Do(req)
	if err != nil {
		if e := fault.As(err); e != nil {
			return nil, e // of whatever connects
		}
		// The error of net/http contains the whole URL, and so perhaps the key.
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err
		}
		return nil, fault.New(fault.Unavailable, "%s did not answer: %s", e.Provider.Name, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case res.StatusCode/100 != 2:
		return nil, e.refused(res.StatusCode)
	case err != nil:
		return nil, fault.New(fault.Unavailable, "the answer of %s broke off", e.Provider.Name)
	case len(body) > maxAnswer:
		return nil, fault.New(fault.Unavailable, "the answer of %s is longer than %d bytes", e.Provider.Name, maxAnswer)
	}
	var answer found
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&answer); err != nil {
		return nil, fault.New(fault.Unavailable, "the answer of %s is not JSON as it documents it", e.Provider.Name).
			WithFix("check its base_url; SearXNG answers JSON once search.formats in its settings.yml lists json")
	}
	return answer.results(q.Count), nil
}

// request is the question as an engine's API documents it.
func (e Engine) request(ctx context.Context, q Query) (*http.Request, error) {
	count := strconv.Itoa(q.Count)
	method, at, query, body := http.MethodGet, "", url.Values{"q": {q.Text}}, []byte(nil)
	header := http.Header{"Accept": {"application/json"}, "User-Agent": {"deckhand"}}
	switch key := e.Key.Reveal(); e.Provider.Format {
	case provider.SearXNG: // https://docs.searxng.org/dev/search_api.html
		at = "/search"
		query.Set("format", "json")
		if key != "" {
			header.Set("Authorization", "Bearer "+key)
		}
	case provider.Brave: // https://api-dashboard.search.brave.com/api-reference/web/search/get
		at = "/web/search"
		query.Set("count", count)
		query.Set("text_decorations", "false")
		header.Set("X-Subscription-Token", key)
	case provider.Exa: // https://exa.ai/docs/reference/search
		method, at, query = http.MethodPost, "/search", nil
		header.Set("X-Api-Key", key)
		header.Set("Content-Type", "application/json")
		var err error
		if body, err = json.Marshal(map[string]any{
			"query": q.Text, "numResults": q.Count, "contents": map[string]any{"highlights": map[string]any{"maxCharacters": quoted}},
		}); err != nil {
			return nil, err
		}
	case provider.SerpAPI: // https://serpapi.com/search-api
		at = "/search.json"
		query.Set("engine", "google")
		query.Set("num", count)
		query.Set("api_key", key)
	default:
		return nil, fmt.Errorf("%s is no search engine", e.Provider.Name)
	}
	if encoded := query.Encode(); encoded != "" {
		at += "?" + encoded
	}
	req, err := http.NewRequestWithContext(ctx, method, e.BaseURL+at, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("its address cannot be read") // it may contain the key
	}
	req.Header = header
	return req, nil
}

// refused returns the error for an engine's refusal. The engine's text may repeat the
// key, so it is left out.
func (e Engine) refused(status int) error {
	name := e.Provider.Name
	switch {
	case status == http.StatusForbidden && e.Provider.Format == provider.SearXNG:
		return fault.New(fault.Precondition, "%s refuses to answer in JSON (HTTP 403)", name).
			WithFix("list json under search.formats in its settings.yml")
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusUnprocessableEntity && e.Provider.Format == provider.Brave:
		return fault.New(fault.Precondition, "%s refuses the key (HTTP %d)", name, status).
			WithCode(fault.CredentialInvalid).WithFix("deckhand provider connect %s", name)
	case status == http.StatusTooManyRequests, status == http.StatusPaymentRequired:
		return fault.New(fault.Exhausted, "%s takes no more questions now (HTTP %d)", name, status).
			WithCode(fault.RateLimited).WithFix("try again later")
	default:
		return fault.New(fault.Unavailable, "%s answered HTTP %d", name, status).WithFix("try again later, or check its base_url")
	}
}

// results returns what can be shown of an answer, each place once.
func (f found) results(most int) []Result {
	var out []Result
	seen := map[string]bool{}
	for _, list := range [][]hit{f.Results, f.Web.Results, f.Organic} {
		for _, h := range list {
			r := Result{
				Title: shown(h.Title, maxTitle), URL: first(h.URL, h.Link),
				Text: shown(first(h.Content, h.Description, h.Snippet, strings.Join(h.Highlights, " … ")), maxText),
				Date: shown(first(h.Date, h.Published, h.PageAge), maxDate),
			}
			at, err := url.Parse(r.URL)
			if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || len(r.URL) > maxURL || seen[r.URL] {
				continue
			}
			r.URL = shown(at.String(), maxURL)
			seen[r.URL] = true
			if out = append(out, r); len(out) == most {
				return out
			}
		}
	}
	return out
}

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// shown returns a text on one line, without markup and what cannot be seen.
func shown(text string, most int) string {
	var plain strings.Builder
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		if kind == html.TextToken {
			plain.Write(z.Text())
		}
	}
	words := strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(html.UnescapeString(plain.String()), "")))
	out := strings.Join(words, " ")
	if len(out) > most {
		out = strings.ToValidUTF8(out[:most-len("…")], "") + "…"
	}
	return out
}
