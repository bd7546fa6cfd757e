package tool

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/tunnel"
	"github.com/deckhand-sh/deckhand/hub/model/websearch"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// webSearchTimeout is less than a worker waits for a step at a time.
	webSearchTimeout = 15 * time.Second
	defaultFound     = 5
)

// webSearchTools query a web search engine over the node's network. The request is made
// by the hub, which has the key; the node only transfers its bytes: a command in the jail
// can neither read the key nor use it.
func webSearchTools() []*Tool {
	return []*Tool{{
		Name: toolname.WebSearch,
		Description: "Search the web. Returns titles, URLs and short excerpts. To read a page, use http_get, which reaches only the hosts that your " +
			`system prompt lists. Example: {"query": "postgres 17 release notes"}.`,
		Kind: KindSearch, Returns: Foreign, Expected: 3 * time.Second, Retryable: true,
		Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE, Place: deckhandv1.ToolPlace_TOOL_PLACE_NODE,
		Idempotent: true, ReadOnly: true, Timeout: webSearchTimeout,
		schema: `{"type":"object","additionalProperties":false,"required":["query"],"properties":{
			"query":{"type":"string","minLength":1,"maxLength":400,"description":"What to search for"},
			"results":{"type":"integer","minimum":1,"maximum":20,"description":"Maximum number of results; 5 by default"}}}`,
		run: runWebSearch,
	}}
}

func runWebSearch(ctx context.Context, c Call) (Result, error) {
	engine, err := c.Engine(ctx)
	if err != nil {
		return failed(err)
	}
	asking, cancel := context.WithTimeout(ctx, webSearchTimeout)
	defer cancel()
	q := websearch.Query{Text: text(c.Arguments, "query"), Count: int(number(c.Arguments, "results"))}
	if q.Count == 0 {
		q.Count = defaultFound
	}
	var sent, received atomic.Int64
	// An address that an administrator gave may be of a private network.
	private := engine.BaseURL != engine.Provider.BaseURL
	client := &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				return connect(ctx, c, address, private, &sent, &received)
			},
			DisableKeepAlives: true, ForceAttemptHTTP2: true,
		},
		// It would take the key elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	found, err := websearch.Search(asking, client, engine, q)
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	host := engine.BaseURL
	if at, perr := url.Parse(engine.BaseURL); perr == nil {
		host = at.Host
	}
	outcome := map[string]any{"engine": engine.Provider.Name, "results": len(found), "egress": map[string]any{"hosts": []any{map[string]any{
		"host": host, "requests": 1, "sent_bytes": sent.Load(), "received_bytes": received.Load(),
	}}}}
	if err != nil {
		result, err := failed(err)
		result.Outcome = outcome
		return result, err
	}
	return Result{Observation: listed(q.Text, engine.Provider.Name, found), Outcome: outcome}, nil
}

// failed returns a question that has no answer as a result that the model can act
// on. While the node is away, or the jail takes nothing, it may yet have one.
func failed(err error) (Result, error) {
	e := fault.As(err)
	if e == nil || e.Code == fault.NodeUnavailable || e.Kind == fault.Unavailable && e.ObjectID != "" {
		return Result{}, err
	}
	return refusal(e), nil
}

// listed writes results as a model reads them.
func listed(query, engine string, found []websearch.Result) string {
	if len(found) == 0 {
		return fmt.Sprintf("%s finds nothing for %q", engine, query)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "found by %s:", engine)
	for i, r := range found {
		fmt.Fprintf(&out, "\n\n%d. %s\n   %s", i+1, r.Title, r.URL)
		if r.Date != "" {
			fmt.Fprintf(&out, "\n   %s", r.Date)
		}
		if r.Text != "" {
			fmt.Fprintf(&out, "\n   %s", r.Text)
		}
	}
	return out.String()
}

// connect connects to an address by the way out of the call's jail, which is made when it
// does not run.
func connect(ctx context.Context, c Call, address string, private bool, sent, received *atomic.Int64) (conn net.Conn, err error) {
	err = inJail(ctx, c, func() (err error) {
		conn, err = tunnel.Dial(ctx, tunnel.Way{Node: c.Node, JailID: c.Jail.GetJailId(), Private: private, Sent: sent, Received: received}, address)
		return err
	})
	return conn, fault.FromGRPC(err)
}
