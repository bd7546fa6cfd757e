package mcpserver

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// tasksURI begins the URIs of all resources.
const tasksURI = "deckhand://tasks/"

// resourceMost bounds a resource, in bytes. Tools read longer ones in pieces.
const resourceMost = 1 << 20

// resource is what a URI names.
type resource struct {
	task, step, path string
}

// parseURI parses deckhand://tasks/ID, deckhand://tasks/ID/steps/STEP/log and
// deckhand://tasks/ID/files/PATH.
func parseURI(uri string) (resource, bool) {
	rest, ok := strings.CutPrefix(uri, tasksURI)
	if !ok {
		return resource{}, false
	}
	parts := strings.SplitN(rest, "/", 3)
	for i, part := range parts {
		text, err := url.PathUnescape(part)
		if err != nil || text == "" {
			return resource{}, false
		}
		parts[i] = text
	}
	switch {
	case len(parts) == 1:
		return resource{task: parts[0]}, true
	case len(parts) == 3 && parts[1] == "files":
		return resource{task: parts[0], path: parts[2]}, true
	case len(parts) == 3 && parts[1] == "steps":
		step, isLog := strings.CutSuffix(parts[2], "/log")
		return resource{task: parts[0], step: step}, isLog && step != "" && !strings.Contains(step, "/")
	}
	return resource{}, false
}

// readResource reads what a URI names. What the caller does not see does not exist.
func (t *tools) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	r, ok := parseURI(uri)
	if !ok {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	content, err := t.contents(ctx, r)
	if fault.Is(fault.FromConnect(err), fault.NotFound) {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	if err != nil {
		return nil, fault.FromConnect(err)
	}
	content.URI, content.Meta = uri, mcp.Meta{"deckhand.sh/notice": notice}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}}, nil
}

func (t *tools) contents(ctx context.Context, r resource) (*mcp.ResourceContents, error) {
	switch {
	case r.path != "":
		res, err := t.files.ReadFile(ctx, &deckhandv1.ReadFileRequest{
			Workspace: &deckhandv1.ReadFileRequest_TaskId{TaskId: r.task}, Path: r.path, Limit: resourceMost,
		})
		if err != nil {
			return nil, err
		}
		if res.GetSize() > resourceMost {
			return nil, fault.New(fault.Exhausted, "%s has %d bytes, and a resource has at most %d", r.path, res.GetSize(), resourceMost).WithFix("read it in pieces with artifact_read")
		}
		if text, n, ok := textOf(res.GetContent()); ok && n == len(res.GetContent()) {
			return &mcp.ResourceContents{MIMEType: "text/plain", Text: text}, nil
		}
		return &mcp.ResourceContents{MIMEType: "application/octet-stream", Blob: res.GetContent()}, nil
	case r.step != "":
		_, found, err := t.steps(ctx, r.task, r.step)
		if err != nil {
			return nil, err
		}
		data, err := t.readLog(ctx, found.ID, 0, resourceMost)
		if err != nil {
			return nil, err
		}
		return &mcp.ResourceContents{MIMEType: "text/plain", Text: strings.ToValidUTF8(string(data), "\uFFFD")}, nil
	}
	found, err := t.get(ctx, r.task)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(taskOf(found))
	if err != nil {
		return nil, err
	}
	return &mcp.ResourceContents{MIMEType: "application/json", Text: string(data)}, nil
}

func (t *tools) addResources(server *mcp.Server) {
	for _, template := range []*mcp.ResourceTemplate{
		{Name: "task", Title: "Task", MIMEType: "application/json", URITemplate: tasksURI + "{id}", Description: "A task, as task_get shows it."},
		{Name: "log", Title: "Output of a step", MIMEType: "text/plain", URITemplate: tasksURI + "{id}/steps/{step}/log", Description: "The raw output of a command, by the step's number or id: the first MiB."},
		{Name: "file", Title: "File of a workspace", URITemplate: tasksURI + "{id}/files/{+path}", Description: "A file of the workspace that a task worked in, of at most 1 MiB."},
	} {
		server.AddResourceTemplate(template, t.readResource)
	}
}

// listResources lists the newest tasks as resources, which differ for each caller.
func (t *tools) listResources(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		list, ok := req.(*mcp.ListResourcesRequest)
		if !ok {
			return next(ctx, method, req)
		}
		cursor := ""
		if list.Params != nil {
			cursor = list.Params.Cursor
		}
		res, err := t.tasks.ListTasks(ctx, &deckhandv1.ListTasksRequest{PageSize: 50, PageToken: cursor})
		if err != nil {
			return nil, fault.FromConnect(err)
		}
		out := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}, NextCursor: res.GetNextPageToken()}
		out.CacheScope = cachePrivate
		for _, found := range res.GetTasks() {
			task := taskOf(found)
			out.Resources = append(out.Resources, &mcp.Resource{
				URI: tasksURI + task.ID, Name: task.ID, Title: task.Title, Description: task.line(), MIMEType: "application/json",
			})
		}
		return out, nil
	}
}

// prompts lists the agents that a caller sees as prompts, and returns one.
func (t *tools) prompts(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch req := req.(type) {
		case *mcp.ListPromptsRequest:
			cursor := ""
			if req.Params != nil {
				cursor = req.Params.Cursor
			}
			res, err := t.agents.ListAgents(ctx, &deckhandv1.ListAgentsRequest{PageToken: cursor})
			if err != nil {
				return nil, fault.FromConnect(err)
			}
			out := &mcp.ListPromptsResult{Prompts: []*mcp.Prompt{}, NextCursor: res.GetNextPageToken()}
			out.CacheScope = cachePrivate
			for _, a := range res.GetAgents() {
				out.Prompts = append(out.Prompts, promptOf(a))
			}
			return out, nil
		case *mcp.GetPromptRequest:
			return t.prompt(ctx, req.Params)
		}
		return next(ctx, method, req)
	}
}
