package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/validate"
	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/api"
	"github.com/deckhand-sh/deckhand/hub/api/console"
	"github.com/deckhand-sh/deckhand/hub/api/idempotency"
	"github.com/deckhand-sh/deckhand/hub/api/mcpserver"
	"github.com/deckhand-sh/deckhand/hub/api/relay"
	"github.com/deckhand-sh/deckhand/hub/api/rest"
	"github.com/deckhand-sh/deckhand/hub/fleet/enroll"
	"github.com/deckhand-sh/deckhand/hub/fleet/nodeinstall"
	"github.com/deckhand-sh/deckhand/hub/fleet/pack"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/oauth"
	"github.com/deckhand-sh/deckhand/hub/identity/oidc"
	"github.com/deckhand-sh/deckhand/hub/identity/organisation"
	"github.com/deckhand-sh/deckhand/hub/identity/team"
	"github.com/deckhand-sh/deckhand/hub/identity/token"
	"github.com/deckhand-sh/deckhand/hub/learn/feedback"
	"github.com/deckhand-sh/deckhand/hub/learn/insight"
	"github.com/deckhand-sh/deckhand/hub/work/estimate"
	"github.com/deckhand-sh/deckhand/hub/work/plan"
	"github.com/deckhand-sh/deckhand/hub/work/search"
	"github.com/deckhand-sh/deckhand/hub/work/takeover"
	"github.com/deckhand-sh/deckhand/hub/work/trigger"
	"github.com/deckhand-sh/deckhand/internal/drain"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/enrollment/v1/enrollmentv1connect"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
	"github.com/deckhand-sh/deckhand/ui"
)

const (
	// maxMessage bounds a request: a task's inputs are the largest.
	maxMessage = 48 << 20
	// compressFrom is the size from which an answer is worth compressing.
	compressFrom      = 16 << 10
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
)

// server puts all handlers onto the API's listener.
func (h *Hub) server() (lifecycle.Service, error) {
	enroller, err := enroll.New(enroll.Config{
		CA: h.ca, Store: h.nodes, EdgeAddress: h.EdgeAddress(), Log: h.cfg.Log.Named("enroll"),
	})
	if err != nil {
		return nil, err
	}
	s := &httpServer{listeners: h.listeners(), delay: h.cfg.DrainDelay, timeout: h.cfg.DrainTimeout, log: h.cfg.Log}
	s.leaving, s.leave = context.WithCancel(context.Background())
	s.draining, s.drain = context.WithCancel(context.Background())
	interceptors, err := h.cfg.Tracer.Interceptors()
	if err != nil {
		return nil, err
	}
	guards := auth.Guards{Tokens: h.tokens, Sessions: h.sessions, Rates: h.rates, Access: h.access}
	interceptors = append(interceptors,
		api.CountInterceptor(h.metrics.Call),
		api.ErrorInterceptor(h.cfg.Log.Named("api"), h.cfg.Redact),
		auth.Interceptor(),
		eventkind.Interceptor(),
		validate.NewInterceptor(),
		api.Text(),
		api.Programs(h.store),
		idempotency.Interceptor(idempotency.Config{Store: h.store, Vault: h.vault, Log: h.cfg.Log.Named("idempotency")}),
	)
	options := []connect.HandlerOption{
		connect.WithInterceptors(interceptors...),
		connect.WithReadMaxBytes(maxMessage),
		// Who is admitted is known already, but not what anybody sends.
		connect.WithConditionalHandlerOptions(func(spec connect.Spec) []connect.HandlerOption {
			if rule, ok := auth.RuleOf(spec.Procedure); ok && rule.Public {
				return []connect.HandlerOption{connect.WithReadMaxBytes(auth.PublicBytes)}
			}
			return nil
		}),
		connect.WithCompressMinBytes(compressFrom),
	}
	mux := http.NewServeMux()
	mux.Handle(deckhandv1connect.NewAgentServiceHandler(&api.Agents{
		Agents: h.agents, Tasks: h.tasks, Subtasks: h.subtasks, Triggers: h.triggers, Nodes: h.nodes, Policies: h.policies, Queries: h.store.Queries,
	}, options...))
	tasks := &api.Tasks{
		TaskLogs: api.NewTaskLogs(h.store, h.tasks, h.steps, h.node),
		Store:    h.store, Tasks: h.tasks, Agents: h.agents, Steps: h.steps, Subtasks: h.subtasks, Nodes: h.nodes,
		Workspaces: h.workspaces, Redact: h.cfg.Redact, Artifacts: h.artifacts, Jobs: h.jobs, History: estimate.New(h.store), Memories: h.memories, Recorder: h.recorder,
	}
	mux.Handle(deckhandv1connect.NewTaskServiceHandler(tasks, options...))
	mux.Handle(deckhandv1connect.NewTaskPlanServiceHandler(&api.TaskPlans{Tasks: tasks, Plans: &plan.Service{Store: h.store, Recorder: h.recorder}}, options...))
	mux.Handle(deckhandv1connect.NewHistoryServiceHandler(&api.Histories{
		Store: h.store, Recorder: h.recorder, Tasks: h.tasks, Agents: h.agents, History: estimate.New(h.store), Budgets: h.budgets, Plans: h.plans, UpgradeURL: h.cfg.UpgradeURL, Node: h.node,
		Search: search.New(h.store, h.cfg.Redact),
	}, options...))
	mux.Handle(deckhandv1connect.NewPatternServiceHandler(&api.Patterns{Patterns: h.patterns, Agents: h.agents, Users: h.users}, options...))
	mux.Handle(deckhandv1connect.NewFeedbackServiceHandler(&api.Feedback{
		Feedback: feedback.New(feedback.Config{Store: h.store, Recorder: h.recorder, Patterns: h.patterns, Memories: h.memories}), Patterns: h.patterns, Memories: h.memories, Tasks: h.tasks, Steps: h.steps,
	}, options...))
	mux.Handle(deckhandv1connect.NewInsightServiceHandler(&api.Insights{
		Insights: insight.New(insight.Config{Store: h.store, Agents: h.agents, Policies: h.policies, History: estimate.New(h.store)}),
		Patterns: h.patterns, Tasks: h.tasks, Agents: h.agents,
	}, options...))
	mux.Handle(deckhandv1connect.NewQueueServiceHandler(&api.Queue{Tasks: h.tasks, Agents: h.agents, Leases: h.leases}, options...))
	control := &api.Control{Store: h.store, Kills: h.kills, Tasks: h.tasks, Agents: h.agents, Nodes: h.nodes, Triggers: h.triggers, AuditKey: h.auditKey, Recorder: h.recorder, Steps: h.steps}
	mux.Handle(deckhandv1connect.NewControlServiceHandler(control, options...))
	mux.Handle(deckhandv1connect.NewAuditServiceHandler(control, options...))
	files := &api.Files{Store: h.store, Agents: h.agents, Tasks: h.tasks, Nodes: h.nodes, Node: h.node, Redact: h.cfg.Redact, Recorder: h.recorder, Artifacts: h.artifacts,
		Steps: h.steps, Changes: h.workspaces}
	mux.Handle(deckhandv1connect.NewFileServiceHandler(files, options...))
	mux.Handle(deckhandv1connect.NewWorkspaceServiceHandler(&api.Workspaces{
		Files: files, Steps: h.steps, Tools: h.tools, Changes: h.workspaces, Execs: h.execs, Recorder: h.recorder,
	}, options...))
	events := &api.Events{
		Tasks: h.tasks, Agents: h.agents, Watcher: h.watcher, Draining: s.draining,
		Progress: api.NewProgress(h.store, h.node, h.cfg.Redact),
	}
	watchPath, watches := deckhandv1connect.NewEventServiceHandler(events, options...)
	mux.Handle(watchPath, api.Cuttable(watches))
	mux.Handle(deckhandv1connect.NewNodeServiceHandler(&api.Nodes{
		Nodes: h.nodes, Rollouts: h.rollouts, CAFingerprint: h.ca.Fingerprint(), Drop: h.edge.Drop,
	}, options...))
	mux.Handle(deckhandv1connect.NewMachineServiceHandler(&api.Machines{Nodes: h.nodes, Node: h.node, Recorder: h.recorder, Redact: h.cfg.Redact}, options...))
	policies := &api.Policies{Policies: h.policies, Agents: h.agents, Tools: h.tools, Redact: h.cfg.Redact, Queries: h.store.Queries}
	mux.Handle(deckhandv1connect.NewPolicyServiceHandler(policies, options...))
	mux.Handle(deckhandv1connect.NewToolServiceHandler(&api.Tools{Policies: policies}, options...))
	mux.Handle(deckhandv1connect.NewInboxServiceHandler(&api.Inbox{Inbox: h.inbox, Tasks: h.tasks, Agents: h.agents, Override: tasks.Override}, options...))
	providers := &api.Providers{Store: h.store, Recorder: h.recorder, Credentials: h.credentials, Budgets: h.budgets, Tasks: h.tasks}
	mux.Handle(deckhandv1connect.NewProviderServiceHandler(providers, options...))
	mux.Handle(deckhandv1connect.NewBudgetServiceHandler(providers, options...))
	mux.Handle(deckhandv1connect.NewPlanServiceHandler(&api.Quotas{Plans: h.plans, Queries: h.store.Queries, UpgradeURL: h.cfg.UpgradeURL}, options...))
	execs := &api.NodeExecs{Nodes: h.nodes, Agents: h.agents, Tasks: h.tasks, Execs: h.execs, Node: h.node}
	mux.Handle(deckhandv1connect.NewNodeExecServiceHandler(execs, options...))
	terminals := &api.Terminals{NodeExecs: execs, Draining: s.draining}
	mux.Handle(deckhandv1connect.NewTerminalServiceHandler(terminals, options...))
	mux.Handle("GET /terminals", &api.Sockets[deckhandv1.OpenTerminalRequest, deckhandv1.OpenTerminalResponse, *deckhandv1.OpenTerminalRequest, *deckhandv1.OpenTerminalResponse]{
		Procedure: deckhandv1connect.TerminalServiceOpenTerminalProcedure, Serve: terminals.Serve, Guards: guards, Log: h.cfg.Log.Named("terminals"), Redact: h.cfg.Redact,
	})
	browsers := &api.Browsers{
		Tasks: h.tasks, Steps: h.steps, Takeovers: &takeover.Takeovers{Store: h.store, Recorder: h.recorder}, Redact: h.cfg.Redact, Events: h.watcher, Draining: s.draining,
	}
	mux.Handle(deckhandv1connect.NewBrowserServiceHandler(browsers, options...))
	mux.Handle("GET /browsers", &api.Sockets[deckhandv1.WatchBrowserRequest, deckhandv1.WatchBrowserResponse, *deckhandv1.WatchBrowserRequest, *deckhandv1.WatchBrowserResponse]{
		Procedure: deckhandv1connect.BrowserServiceWatchBrowserProcedure, Serve: browsers.Serve, Guards: guards, Log: h.cfg.Log.Named("browsers"), Redact: h.cfg.Redact,
	})
	mux.Handle(deckhandv1connect.NewNodeTelemetryServiceHandler(&api.Telemetry{
		Nodes: h.nodes, Agents: h.agents, Queries: h.store.Queries, Node: h.telemetry, Draining: s.draining,
	}, options...))
	mux.Handle(enrollmentv1connect.NewEnrollmentServiceHandler(enroller, options...))
	mux.Handle(deckhandv1connect.NewWorkerServiceHandler(&api.Workers{
		Store: h.store, Bus: h.bus, Leases: h.leases, Reports: h.reports, Steps: h.steps, Inbox: h.inbox,
		Agents: h.agents, Tools: h.tools, Plans: h.plans, Patterns: h.patterns, Redact: h.cfg.Redact, Memories: h.memories, Log: h.cfg.Log.Named("worker"), Draining: s.draining,
	}, options...))
	mux.Handle(deckhandv1connect.NewSessionServiceHandler(&api.Sessions{
		Store: h.store, Sessions: h.sessions, Path: strings.TrimRight(h.cfg.BasePath, "/"), Passkeys: h.passkeys, Public: h.cfg.public,
	}, options...))
	mux.Handle(deckhandv1connect.NewPasskeyServiceHandler(&api.Passkeys{Passkeys: h.passkeys, Users: h.users, Inbox: h.inbox}, options...))
	people := &api.People{Users: h.users, Sessions: h.sessions, Teams: team.New(h.store, h.users)}
	mux.Handle(deckhandv1connect.NewUserServiceHandler(people, options...))
	mux.Handle(deckhandv1connect.NewTeamServiceHandler(people, options...))
	mux.Handle(deckhandv1connect.NewTokenServiceHandler(&api.Tokens{
		Tokens: token.New(h.store, h.recorder, h.tokens), Users: h.users,
	}, options...))
	mux.Handle(deckhandv1connect.NewOrganisationServiceHandler(&api.Organisations{Organisations: organisation.New(h.store, h.recorder)}, options...))
	mux.Handle(deckhandv1connect.NewAccessServiceHandler(&api.Access{Lists: h.access}, options...))
	mux.Handle(deckhandv1connect.NewImageServiceHandler(&api.Images{Nodes: h.nodes, Images: h.images, Agents: h.agents, Setups: h.setups, Link: h.node}, options...))
	mux.Handle(deckhandv1connect.NewPackServiceHandler(&api.Packs{Nodes: h.nodes, Packs: &pack.Packs{Recorder: h.recorder, Node: h.node}}, options...))
	mux.Handle(deckhandv1connect.NewCredentialServiceHandler(&api.Credentials{Credentials: h.egress, Tasks: h.tasks, Queries: h.store.Queries}, options...))
	mux.Handle(deckhandv1connect.NewMemoryServiceHandler(&api.Memories{Memories: h.memories, Store: h.store, Users: h.users, Agents: h.agents, Tasks: h.tasks}, options...))
	mux.Handle(deckhandv1connect.NewKnowledgeServiceHandler(&api.Knowledge{Knowledge: h.knowledge}, options...))
	mux.Handle(deckhandv1connect.NewRetentionServiceHandler(&api.Retention{Retention: h.retention, Tasks: h.tasks}, options...))
	mux.Handle(deckhandv1connect.NewDiagnosticsServiceHandler(&api.Diagnostics{Doctor: h.doctor(), Redact: h.cfg.Redact}, options...))
	mux.Handle(deckhandv1connect.NewVaultServiceHandler(&api.Vault{Rotation: h.rotation}, options...))
	login, err := oidc.New(h.cfg.oidc, oidc.Parts{Store: h.store, Vault: h.vault, Users: h.users, Sessions: h.sessions, Log: h.cfg.Log.Named("oidc")})
	if err != nil {
		return nil, err
	}
	mux.Handle(oidc.Prefix, login)
	mux.Handle(relay.Prefix, h.relay)
	mux.Handle(deckhandv1connect.NewTriggerServiceHandler(&api.Triggers{
		Store: h.store, Triggers: h.triggers, Agents: h.agents, Redact: h.cfg.Redact,
	}, options...))
	mux.Handle(deckhandv1connect.NewDestinationServiceHandler(&api.Destinations{Notify: h.notify, Agents: h.agents}, options...))
	mux.Handle(deckhandv1connect.NewPushServiceHandler(&api.Push{Notify: h.notify, Key: h.pushKeys.Public}, options...))
	mux.Handle(trigger.Prefix+"{id}", h.triggers)
	refuse := api.Refuse(h.cfg.Log.Named("api"), h.cfg.Redact)
	door := auth.NewDoor(guards, h.turns, refuse, mux)
	programs := oauth.New(oauth.Config{
		Store: h.store, Tokens: token.New(h.store, h.recorder, h.tokens), Guards: guards, Public: h.cfg.public,
		BasePath: strings.TrimRight(h.cfg.BasePath, "/"), Resource: mcpserver.Path, Decide: h.cfg.MCPDecide, Log: h.cfg.Log.Named("oauth"),
	})
	for _, path := range []string{oauth.Prefix, oauth.ResourceMetadata, oauth.ResourceMetadata + "/", oauth.ServerMetadata, oauth.ServerMetadata + "/"} {
		mux.Handle(path, programs)
	}
	mux.Handle(mcpserver.Path, mcpserver.New(mcpserver.Config{
		API: door, Guards: guards, Refuse: refuse, Public: h.cfg.public, Metadata: programs.Metadata, Decide: h.cfg.MCPDecide, Log: h.cfg.Log.Named("mcp"),
	}))
	ready := &readiness{hub: h, draining: s.leaving}
	mux.Handle(grpchealth.NewHandler(ready))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /readyz", ready)
	mux.Handle("GET /status", &publicStatus{hub: h, ready: ready})
	mux.Handle(nodeinstall.Prefix, h.installs)
	pages, err := console.New(console.Config{Files: ui.Files(), BasePath: h.cfg.BasePath})
	if err != nil {
		return nil, err
	}
	mux.Handle("/", pages)
	front, err := rest.New(rest.Config{
		Door: door, Watch: events.Into(interceptors), Show: api.Shown(h.cfg.Log.Named("rest"), h.cfg.Redact), MaxBytes: maxMessage, BasePath: h.cfg.BasePath,
	})
	if err != nil {
		return nil, err
	}

	h.programs.api.Store(front)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Handler:   auth.TrustProxies(h.cfg.trustedProxies, h.cfg.public.Transport(pages.Under(s.counted(auth.SameOrigin(h.cfg.public, front.Refuse, front))))),
		Protocols: protocols, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
		ErrorLog: h.cfg.Log.Named("http").StandardLogger(nil),
	}
	return s, nil
}

// httpServer serves until it is stopped. Then it goes on for a while, not ready
// any more; streams are told to go elsewhere, and calls in progress may end.
type httpServer struct {
	lifecycle.Runner

	listeners []net.Listener
	http      *http.Server
	// leaving ends when the server is told to stop; it serves still.
	leaving context.Context
	leave   context.CancelFunc
	delay   time.Duration
	// timeout is how long calls in progress may go on after that.
	timeout time.Duration
	calls   drain.Calls
	log     hclog.Logger
	// draining ends when the server takes no more calls.
	draining context.Context
	drain    context.CancelFunc
}

// Start serves.
func (s *httpServer) Start(ctx context.Context) error {
	return s.Run(ctx, func(ctx context.Context) error {
		var serving error
		served := make(chan struct{})
		go func() {
			defer close(served)
			serving = s.serve()
		}()
		defer func() { <-served }()
		select {
		case <-served:
			return fmt.Errorf("serve the API: %w", serving)
		case <-ctx.Done():
		}
		s.leave()
		select {
		case <-served:
		case <-time.After(s.delay):
		}
		s.drain()
		return s.shutdown(context.WithoutCancel(ctx))
	})
}

// shutdown takes no more calls, and gives those in progress their time.
func (s *httpServer) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = s.http.Shutdown(ctx)
	}()
	if !(drain.Config{Timeout: s.timeout, Running: s.calls.Running, Log: s.log}.Wait(done)) {
		cancel()
		<-done
	}
	if err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}

// counted counts the calls in progress, by the name of their procedure, or by the method and
// the first part of the path: the rest may hold secrets.
func (s *httpServer) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if _, known := auth.RuleOf("/" + name); !known {
			name, _, _ = strings.Cut(name, "/")
			name = fmt.Sprintf("%s /%.32q", r.Method, name)
		}
		defer s.calls.Enter(name)()
		next.ServeHTTP(w, r)
	})
}

// serve serves on all listeners until the server is shut down or one of them fails.
func (s *httpServer) serve() error {
	results := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() { results <- s.http.Serve(l) }()
	}
	err := <-results
	for range s.listeners[1:] {
		if !errors.Is(err, http.ErrServerClosed) {
			_ = s.http.Close() // the others end as well
		}
		if later := <-results; err == nil {
			err = later
		}
	}
	return err
}
