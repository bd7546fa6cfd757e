// Package sdk is the Go client of Deckhand's API.
//
//	client, err := sdk.New(sdk.Config{URL: "https://hub.example", Token: token})
//	res, err := client.Tasks.SubmitTask(ctx, connect.NewRequest(&deckhandv1.SubmitTaskRequest{
//		AgentId: "log-triage", Goal: "What went wrong last night?",
//	}))
//	for event, err := range client.Watch(ctx, &deckhandv1.WatchRequest{TaskIds: []string{res.Msg.Task.Id}, Follow: true}) { … }
//
// Every call sends the token, and the correlation id of its context if there is
// one. A call that can be repeated safely is tried again, with jittered waits, if
// the hub cannot be reached or says when to call again: see [Config].Retries.
//
// Errors are the hub's own: each has a code from the catalogue, what
// happened and how to fix it (see [Error] and [CodeOf]). If the hub cannot be
// reached, the error's kind is KindUnavailable.
//
// [List] iterates over the rows of any list, [Client.Watch] over events,
// [Client.WaitForTask] waits for the end of a task, [Client.DownloadFile] reads a
// file of its workspace, and [VerifyWebhook] verifies what the hub sends.
package sdk

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// Config selects the hub and the credentials.
type Config struct {
	// URL of the hub, for example "https://hub.example:7443" or
	// "https://hub.example/deckhand". Required.
	URL string
	// Token is a user's API token or a worker's token. It may be empty only
	// for calls that need none, such as enrolling a node.
	Token string
	// HTTPClient is used for all calls; nil for one with a dial time-out of
	// 5 s and no limit on the length of a call. Give calls a deadline by their
	// context.
	HTTPClient *http.Client
	// UserAgent is sent along; empty for "deckhand-sdk".
	UserAgent string
	// Interceptors see every call before it is sent: for tracing, for example. They
	// see one that is tried again once.
	Interceptors []connect.Interceptor
	// Retries is how often a call is tried again if the hub cannot be reached or says
	// when to call again: 0 for 3, and negative for never. Calls that change nothing are
	// repeated as they are, and those of users that do with an idempotency key, which they
	// get unless their context has one (see WithIdempotencyKey). A call with a key goes on
	// at the hub when its caller leaves. Streams and calls that need no token are not
	// repeated.
	Retries int
}

// Client calls one hub. It is safe for use by many goroutines.
type Client struct {
	Agents deckhandv1connect.AgentServiceClient
	Tasks  deckhandv1connect.TaskServiceClient
	// TaskPlans are the plans that agents make of their tasks, and people change.
	TaskPlans  deckhandv1connect.TaskPlanServiceClient
	Control    deckhandv1connect.ControlServiceClient
	Audit      deckhandv1connect.AuditServiceClient
	Events     deckhandv1connect.EventServiceClient
	Files      deckhandv1connect.FileServiceClient
	Inbox      deckhandv1connect.InboxServiceClient
	Workspaces deckhandv1connect.WorkspaceServiceClient
	Nodes      deckhandv1connect.NodeServiceClient
	NodeExecs  deckhandv1connect.NodeExecServiceClient
	// Machines are those of nodes, as far as their operators show them.
	Machines  deckhandv1connect.MachineServiceClient
	Terminals deckhandv1connect.TerminalServiceClient
	// Browsers are those of tasks, which people watch and take over.
	Browsers  deckhandv1connect.BrowserServiceClient
	Telemetry deckhandv1connect.NodeTelemetryServiceClient
	// Workers is for workers only.
	Workers deckhandv1connect.WorkerServiceClient
	Queue   deckhandv1connect.QueueServiceClient

	// History compares and analyses past runs.
	History deckhandv1connect.HistoryServiceClient
	// Patterns are what successful runs have taught, Feedback takes what people say of results,
	// and Insights says what can be learned from runs.
	Patterns deckhandv1connect.PatternServiceClient
	Feedback deckhandv1connect.FeedbackServiceClient
	Insights deckhandv1connect.InsightServiceClient

	Providers deckhandv1connect.ProviderServiceClient
	Budgets   deckhandv1connect.BudgetServiceClient
	// Plans say what the organisation may have.
	Plans    deckhandv1connect.PlanServiceClient
	Policies deckhandv1connect.PolicyServiceClient
	// Tools are those that agents may call.
	Tools    deckhandv1connect.ToolServiceClient
	Triggers deckhandv1connect.TriggerServiceClient
	// Destinations receive notifications.
	Destinations deckhandv1connect.DestinationServiceClient
	// Sessions logs people in.
	Sessions deckhandv1connect.SessionServiceClient
	// Push has the caller's devices.
	Push deckhandv1connect.PushServiceClient
	// Passkeys log people in, and prove what they decide.
	Passkeys deckhandv1connect.PasskeyServiceClient
	Users    deckhandv1connect.UserServiceClient
	// Organisations are an operator's.
	Organisations deckhandv1connect.OrganisationServiceClient
	Teams         deckhandv1connect.TeamServiceClient
	Knowledge     deckhandv1connect.KnowledgeServiceClient
	Tokens        deckhandv1connect.TokenServiceClient
	// Access says from where calls may come.
	Access deckhandv1connect.AccessServiceClient
	// Credentials are inserted into requests of agents' commands.
	Credentials deckhandv1connect.CredentialServiceClient
	// Images are those that jails are made from.
	Images deckhandv1connect.ImageServiceClient
	// Packs are programs that all jails of a node are shown.
	Packs       deckhandv1connect.PackServiceClient
	Diagnostics deckhandv1connect.DiagnosticsServiceClient
	Retention   deckhandv1connect.RetentionServiceClient
	Memories    deckhandv1connect.MemoryServiceClient
	// Vault is an operator's.
	Vault deckhandv1connect.VaultServiceClient

	url  string
	http *http.Client
}

// New creates a client. It does not connect: the first call does.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(cfg.URL, "/"))
	switch {
	case cfg.URL == "":
		return nil, errors.New("hub URL is empty: give one such as https://hub.example:7443")
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, fmt.Errorf("hub URL %q: give one that begins with https:// or http:// and names a host", cfg.URL)
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("hub URL for %s has a user, query or fragment: leave them out", base.Host)
	}
	if strings.ContainsFunc(cfg.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("token has spaces, line breaks or other characters that no token has: copy it again")
	}
	client := cfg.HTTPClient
	if client == nil {
		client = &http.Client{Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			ForceAttemptHTTP2:     true,
			MaxIdleConns:          100,
			MaxIdleConnsPerHost:   100,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   5 * time.Second,
			ExpectContinueTimeout: time.Second,
		}}
	}
	// Streams both ways need HTTP/2, which a plain http:// hub speaks only to who
	// knows so beforehand.
	duplex := client
	if cfg.HTTPClient == nil && base.Scheme == "http" {
		duplex = &http.Client{Transport: h2c(client.Transport)}
	}
	userAgent := cfg.UserAgent
	if userAgent == "" {
		userAgent = "deckhand-sdk"
	}
	options := connect.WithInterceptors(append(slices.Clone(cfg.Interceptors),
		retries{limit: cmp.Or(cfg.Retries, defaultRetries)}, &headers{token: cfg.Token, userAgent: userAgent})...)
	target := base.String()
	return &Client{
		Agents:        deckhandv1connect.NewAgentServiceClient(client, target, options),
		Tasks:         deckhandv1connect.NewTaskServiceClient(client, target, options),
		Control:       deckhandv1connect.NewControlServiceClient(client, target, options),
		Audit:         deckhandv1connect.NewAuditServiceClient(client, target, options),
		Events:        deckhandv1connect.NewEventServiceClient(client, target, options),
		Files:         deckhandv1connect.NewFileServiceClient(client, target, options),
		Inbox:         deckhandv1connect.NewInboxServiceClient(client, target, options),
		Workspaces:    deckhandv1connect.NewWorkspaceServiceClient(client, target, options),
		Nodes:         deckhandv1connect.NewNodeServiceClient(client, target, options),
		NodeExecs:     deckhandv1connect.NewNodeExecServiceClient(client, target, options),
		Machines:      deckhandv1connect.NewMachineServiceClient(client, target, options),
		Terminals:     deckhandv1connect.NewTerminalServiceClient(duplex, target, options),
		Browsers:      deckhandv1connect.NewBrowserServiceClient(duplex, target, options),
		Telemetry:     deckhandv1connect.NewNodeTelemetryServiceClient(client, target, options),
		Workers:       deckhandv1connect.NewWorkerServiceClient(client, target, options),
		Queue:         deckhandv1connect.NewQueueServiceClient(client, target, options),
		History:       deckhandv1connect.NewHistoryServiceClient(client, target, options),
		Patterns:      deckhandv1connect.NewPatternServiceClient(client, target, options),
		Feedback:      deckhandv1connect.NewFeedbackServiceClient(client, target, options),
		Insights:      deckhandv1connect.NewInsightServiceClient(client, target, options),
		Providers:     deckhandv1connect.NewProviderServiceClient(client, target, options),
		Budgets:       deckhandv1connect.NewBudgetServiceClient(client, target, options),
		Plans:         deckhandv1connect.NewPlanServiceClient(client, target, options),
		TaskPlans:     deckhandv1connect.NewTaskPlanServiceClient(client, target, options),
		Policies:      deckhandv1connect.NewPolicyServiceClient(client, target, options),
		Tools:         deckhandv1connect.NewToolServiceClient(client, target, options),
		Destinations:  deckhandv1connect.NewDestinationServiceClient(client, target, options),
		Triggers:      deckhandv1connect.NewTriggerServiceClient(client, target, options),
		Sessions:      deckhandv1connect.NewSessionServiceClient(client, target, options),
		Push:          deckhandv1connect.NewPushServiceClient(client, target, options),
		Passkeys:      deckhandv1connect.NewPasskeyServiceClient(client, target, options),
		Access:        deckhandv1connect.NewAccessServiceClient(client, target, options),
		Credentials:   deckhandv1connect.NewCredentialServiceClient(client, target, options),
		Images:        deckhandv1connect.NewImageServiceClient(client, target, options),
		Packs:         deckhandv1connect.NewPackServiceClient(client, target, options),
		Diagnostics:   deckhandv1connect.NewDiagnosticsServiceClient(client, target, options),
		Retention:     deckhandv1connect.NewRetentionServiceClient(client, target, options),
		Memories:      deckhandv1connect.NewMemoryServiceClient(client, target, options),
		Vault:         deckhandv1connect.NewVaultServiceClient(client, target, options),
		Organisations: deckhandv1connect.NewOrganisationServiceClient(client, target, options),
		Users:         deckhandv1connect.NewUserServiceClient(client, target, options),
		Teams:         deckhandv1connect.NewTeamServiceClient(client, target, options),
		Knowledge:     deckhandv1connect.NewKnowledgeServiceClient(client, target, options),
		Tokens:        deckhandv1connect.NewTokenServiceClient(client, target, options),
		url:           target,
		http:          client,
	}, nil
}

// h2c is a transport that speaks HTTP/2 without TLS, and otherwise like t.
func h2c(t http.RoundTripper) http.RoundTripper {
	transport, ok := t.(*http.Transport)
	if !ok {
		return t
	}
	transport = transport.Clone()
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetUnencryptedHTTP2(true)
	return transport
}

// URL returns the hub's URL, without a trailing slash.
func (c *Client) URL() string { return c.url }

// HTTPClient returns what all calls go through.
func (c *Client) HTTPClient() *http.Client { return c.http }
