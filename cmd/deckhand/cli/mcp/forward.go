package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deckhand-sh/deckhand/internal/version"
)

// forwarder forwards the requests of a client to the hub's MCP server.
type forwarder struct {
	endpoint string
	http     *http.Client

	mu sync.Mutex
	// up is the session with the hub; nil before the first and after a broken one.
	up *mcp.ClientSession

	calls atomic.Int64
	// waiting are the callers that want to know of progress, by the token of the call.
	waiting sync.Map
}

// server returns the server for the local client. It asks the hub what it is.
func (f *forwarder) server(ctx context.Context) (*mcp.Server, error) {
	up, err := f.session(ctx)
	if err != nil {
		return nil, err
	}
	self := up.InitializeResult()
	server := mcp.NewServer(&mcp.Implementation{Name: "deckhand", Title: "Deckhand", Version: version.Version}, &mcp.ServerOptions{
		Instructions: self.Instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}, Prompts: &mcp.PromptCapabilities{}},
	})
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			return f.forward(ctx, method, req, next)
		}
	})
	return server, nil
}

// session returns the session with the hub, a new one after the last has broken.
func (f *forwarder) session(ctx context.Context) (*mcp.ClientSession, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.up != nil {
		return f.up, nil
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "deckhand-mcp", Version: version.Version}, &mcp.ClientOptions{
		// What the local client cannot show is declined by elicit.
		Capabilities:                &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
		MultiRoundTrip:              &mcp.MultiRoundTripOptions{Disabled: true},
		ProgressNotificationHandler: f.progress,
	})
	up, err := client.Connect(context.WithoutCancel(ctx), &mcp.StreamableClientTransport{Endpoint: f.endpoint, HTTPClient: f.http, DisableStandaloneSSE: true}, nil)
	if err != nil {
		return nil, fmt.Errorf("connect to the MCP server of the hub, %s: %w", f.endpoint, err)
	}
	f.up = up
	return up, nil
}

// broken forgets a session after an error that is not the hub's response.
func (f *forwarder) broken(up *mcp.ClientSession, err error) {
	var said *jsonrpc.Error
	if err == nil || errors.As(err, &said) || errors.Is(err, context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.up == up {
		f.up = nil
		go up.Close() //nolint:errcheck // the session has failed already
	}
}

func (f *forwarder) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.up != nil {
		_ = f.up.Close() // the hub keeps nothing of it
	}
}

// forward makes one request to the hub.
func (f *forwarder) forward(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	switch req.(type) {
	case *mcp.ListToolsRequest, *mcp.CallToolRequest, *mcp.ListResourcesRequest, *mcp.ListResourceTemplatesRequest, *mcp.ReadResourceRequest,
		*mcp.ListPromptsRequest, *mcp.GetPromptRequest:
	default:
		return next(ctx, method, req)
	}
	up, err := f.session(ctx)
	if err != nil {
		return nil, err
	}
	res, err := f.send(ctx, up, req)
	f.broken(up, err)
	return res, err
}

func (f *forwarder) send(ctx context.Context, up *mcp.ClientSession, req mcp.Request) (mcp.Result, error) {
	switch req := req.(type) {
	case *mcp.ListToolsRequest:
		return up.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor(req.Params)})
	case *mcp.ListResourcesRequest:
		return up.ListResources(ctx, &mcp.ListResourcesParams{Cursor: cursor(req.Params)})
	case *mcp.ListResourceTemplatesRequest:
		return up.ListResourceTemplates(ctx, &mcp.ListResourceTemplatesParams{Cursor: cursor(req.Params)})
	case *mcp.ReadResourceRequest:
		return up.ReadResource(ctx, &mcp.ReadResourceParams{URI: req.Params.URI})
	case *mcp.ListPromptsRequest:
		return up.ListPrompts(ctx, &mcp.ListPromptsParams{Cursor: cursor(req.Params)})
	case *mcp.GetPromptRequest:
		return up.GetPrompt(ctx, &mcp.GetPromptParams{Name: req.Params.Name, Arguments: req.Params.Arguments})
	case *mcp.CallToolRequest:
		return f.call(ctx, up, req)
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this method is not forwarded"}
}

// cursor returns where a page of a list begins; clients may leave out the parameters.
func cursor(params any) string {
	switch params := params.(type) {
	case *mcp.ListToolsParams:
		if params != nil {
			return params.Cursor
		}
	case *mcp.ListResourcesParams:
		if params != nil {
			return params.Cursor
		}
	case *mcp.ListResourceTemplatesParams:
		if params != nil {
			return params.Cursor
		}
	case *mcp.ListPromptsParams:
		if params != nil {
			return params.Cursor
		}
	}
	return ""
}

// call calls a tool. If the hub asks the person something, the local client shows it.
func (f *forwarder) call(ctx context.Context, up *mcp.ClientSession, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	params := &mcp.CallToolParams{Name: req.Params.Name, InputResponses: req.Params.InputResponses, RequestState: req.Params.RequestState}
	if len(req.Params.Arguments) > 0 {
		params.Arguments = req.Params.Arguments
	}
	if token := req.Params.GetProgressToken(); token != nil {
		own := "call-" + strconv.FormatInt(f.calls.Add(1), 10)
		f.waiting.Store(own, listener{req.Session, token})
		defer f.waiting.Delete(own)
		params.SetProgressToken(own)
	}
	res, err := up.CallTool(ctx, params)
	if err != nil || !res.NeedsInput() || asks(req.Session) {
		return res, err
	}
	if params.InputResponses, err = elicit(ctx, req.Session, res.InputRequests); err != nil {
		return nil, err
	}
	params.RequestState = res.RequestState
	return up.CallTool(ctx, params)
}

// asks reports whether the client asks its person itself, and calls again.
func asks(session *mcp.ServerSession) bool {
	params := session.InitializeParams()
	return params != nil && params.ProtocolVersion >= "2026-07-28"
}

// elicit has a client of an older revision ask its person. What it cannot show is declined.
func elicit(ctx context.Context, session *mcp.ServerSession, requests mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	params := session.InitializeParams()
	able := params != nil && params.Capabilities != nil && params.Capabilities.Elicitation != nil
	out := mcp.InputResponseMap{}
	for name, request := range requests {
		out[name] = &mcp.ElicitResult{Action: "decline"}
		form, ok := request.(*mcp.ElicitParams)
		if !ok || !able {
			continue
		}
		res, err := session.Elicit(ctx, form)
		if err != nil {
			return nil, err
		}
		out[name] = res
	}
	return out, nil
}

// listener wants to know of the progress of a call.
type listener struct {
	session *mcp.ServerSession
	token   any
}

// progress passes on a notification of the hub.
func (f *forwarder) progress(ctx context.Context, req *mcp.ProgressNotificationClientRequest) {
	own, _ := req.Params.ProgressToken.(string)
	found, ok := f.waiting.Load(own)
	if !ok {
		return
	}
	to, _ := found.(listener)
	// A client that is gone ends the command by its input.
	_ = to.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: to.token, Progress: req.Params.Progress, Total: req.Params.Total, Message: req.Params.Message,
	})
}
