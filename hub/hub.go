package hub

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/api/relay"
	"github.com/deckhand-sh/deckhand/hub/egress/authority"
	"github.com/deckhand-sh/deckhand/hub/egress/channel"
	egresscredential "github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/egress/program"
	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/hub/fleet/image"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/masklog"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/fleet/nodeinstall"
	"github.com/deckhand-sh/deckhand/hub/fleet/replica"
	"github.com/deckhand-sh/deckhand/hub/fleet/rollout"
	"github.com/deckhand-sh/deckhand/hub/identity/access"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/passkey"
	"github.com/deckhand-sh/deckhand/hub/identity/session"
	"github.com/deckhand-sh/deckhand/hub/identity/user"
	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/learn/knowledge"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/learn/pattern"
	"github.com/deckhand-sh/deckhand/hub/maintenance/reconcile"
	"github.com/deckhand-sh/deckhand/hub/maintenance/retention"
	"github.com/deckhand-sh/deckhand/hub/maintenance/rotation"
	"github.com/deckhand-sh/deckhand/hub/maintenance/secretwatch"
	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/model/inference"
	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/model/websearch"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/metrics"
	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/review"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/hub/storage/leader"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/admission"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/artifact"
	"github.com/deckhand-sh/deckhand/hub/work/attempt"
	"github.com/deckhand-sh/deckhand/hub/work/job"
	"github.com/deckhand-sh/deckhand/hub/work/kill"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/modelaccess"
	"github.com/deckhand-sh/deckhand/hub/work/nodeexec"
	"github.com/deckhand-sh/deckhand/hub/work/quota"
	"github.com/deckhand-sh/deckhand/hub/work/search"
	"github.com/deckhand-sh/deckhand/hub/work/setup"
	"github.com/deckhand-sh/deckhand/hub/work/subtask"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/trigger"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fair"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/metricsserver"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/phase"
	"github.com/deckhand-sh/deckhand/internal/provider"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	admissionSweep = 2 * time.Second
	claimTimeout   = 5 * time.Second
	inboxSweep     = time.Second
	stopSweep      = 10 * time.Second
	subtaskSweep   = 5 * time.Second
	triggerSweep   = time.Second
	nodeWait       = 10 * time.Second
	watchPoll      = time.Second
	watchHeartbeat = 15 * time.Second
	killTimeout    = 10 * time.Second
	// renewals is how many sweeps there are in one lease's time.
	renewals = 6
	maxSweep = 5 * time.Second
	// expiryInterval is how often expired checkpoints are deleted.
	expiryInterval       = 10 * time.Minute
	housekeepingInterval = 15 * time.Second
	// endedTimeout bounds what a trigger does when a task that it started ends.
	endedTimeout = 10 * time.Second
)

// Hub is one replica of the control plane. It is a lifecycle.Service.
type Hub struct {
	lifecycle.Group

	cfg      Config
	replica  string
	vault    *vault.Vault
	store    *store.Store
	ca       *ca.CA
	listener net.Listener
	// localListener is that of Config.LocalHTTP; nil for none.
	localListener net.Listener
	edgeListener  net.Listener
	background    sync.WaitGroup // short work that Stop waits for
	nodeOrgs      sync.Map       // the organisation of each node, by id

	nats       *bus.Server // nil when another server is used
	supervised []*lifecycle.Restart
	bus        *bus.Bus
	edge       *edge.Edge
	self       *replica.Replica
	leader     *leader.Elector
	retention  *retention.Service
	memories   *memory.Memories
	rotation   *rotation.Rotation
	auditKey   ed25519.PrivateKey
	tokens     *auth.Tokens
	users      *user.Users
	sessions   *session.Sessions
	passkeys   *passkey.Service
	access     *access.Lists
	rates      *auth.Rates
	turns      *fair.Turns
	nodes      *node.Nodes
	installs   *nodeinstall.Handler
	rollouts   *rollout.Service
	execs      *nodeexec.Execs
	tools      *tool.Registry
	agents     *agent.Service
	tasks      *task.Service
	kills      *kill.Switch
	jobs       *job.Service
	leases     *lease.Leases
	reports    *attempt.Reports
	recorder   *event.Recorder
	metrics    *metrics.Metrics
	steps      *step.Steps
	inbox      *inbox.Service
	reviews    *review.Service
	policies   *policy.Service
	plans      *quota.Service
	subtasks   *subtask.Service
	watcher    *event.Watcher
	admission  *admission.Admission
	workspaces *workspace.Workspaces
	artifacts  *artifact.Artifacts
	triggers   *trigger.Service
	notify     *notification.Service
	pushKeys   notification.PushKeys

	credentials *credential.Credentials
	egress      *egresscredential.Credentials
	authorities *authority.Authorities
	channels    *channel.Channels
	programs    *programs
	images      *image.Images
	setups      *setup.Setups
	knowledge   *knowledge.Knowledge
	patterns    *pattern.Service
	inference   *inference.Models
	budgets     *budget.Ledger
	models      *modelaccess.Service
	relay       *relay.Relay
	reconciler  *reconcile.Reconciler
	secrets     *secretwatch.Watcher
}

// assemble makes the hub's parts and puts those that run into order.
func (h *Hub) assemble(ctx context.Context) (err error) {
	c := h.cfg
	if h.nats, err = c.natsServer(h.ca); err != nil {
		return err
	}
	if h.bus, err = bus.New(bus.Config{
		Server: h.nats, URL: c.NATSURL, EventsURL: c.NATSEventsURL, WorkerURL: c.NATSWorkerURL, Authority: c.natsAuthority, Replicas: c.NATSReplicas,
		Log: c.Log.Named("bus"),
	}); err != nil {
		return err
	}
	h.supervised = slices.Clone(c.Supervised)
	var busServer *lifecycle.Restart
	if h.nats != nil {
		busServer = &lifecycle.Restart{
			Name: "NATS", Service: h.nats, Log: c.Log,
			Fix: "see the hub's log for what it says, or use a NATS server of your own with --nats-url",
		}
		h.supervised = append(h.supervised, busServer)
	}
	if h.tools, err = tool.NewRegistry(); err != nil {
		return err
	}
	h.tokens = auth.NewTokens(h.store)
	h.metrics = metrics.New(metrics.Config{
		Registry: c.Registry, Queries: h.store.Queries, Pool: h.store.Pool,
		Tools: h.tools.Names(), States: task.States(), Open: task.OpenStates(), InboxKinds: inbox.Kinds(), Phases: phase.Names(), Limits: attempt.LimitKinds(),
		StaleAfter: nodeStaleIntervals * heartbeatInterval,
		Watches:    func() int64 { return h.watcher.Open() }, Links: func() int { return len(h.edge.Connected()) },
		Bus: h.bus.Connected, Leading: func() bool { return h.leader.Leading() }, Supervised: h.supervised,
	})
	changes := &change.Feed{}
	recorder := event.NewRecorder(event.RecorderConfig{
		Store: h.store, Redact: c.Redact, Notify: h.hint, OnStored: h.metrics.Events, Changes: changes,
	})
	h.recorder = recorder
	h.users = user.New(user.Config{Store: h.store, Recorder: recorder})
	h.access, h.rates, h.turns = access.New(h.store, recorder), auth.NewRates(c.APIRate), fair.NewTurns()
	h.sessions = session.New(session.Config{
		Store: h.store, Recorder: recorder, Tokens: h.tokens, Users: h.users, Idle: c.SessionIdle, Lifetime: c.SessionLifetime, Allow: h.access.Login,
	})
	if h.passkeys, err = passkey.New(passkey.Config{Store: h.store, Recorder: recorder, Public: c.public}); err != nil {
		return err
	}
	h.nodes = node.New(h.store, recorder, c.Redact, nodeStaleIntervals*heartbeatInterval)
	h.agents = agent.NewService(h.store, recorder, persona.Vocabulary{Tools: h.tools.Listable(), Providers: provider.Runnable(), Modes: persona.Modes(), Trigger: trigger.CheckDeclared})
	h.plans = quota.New(quota.Config{Store: h.store, Recorder: recorder, UpgradeURL: c.UpgradeURL})
	h.assembleModels(recorder)
	h.admission = admission.New(admission.Config{
		Recorder: recorder, Queries: h.store.Queries, Agents: h.agents, Wake: h.bus.Publish, Usable: h.models.Usable, Plans: h.plans,
		StaleAfter: nodeStaleIntervals * heartbeatInterval, MaxActive: c.MaxActive,
		MaxPerUser: c.MaxPerUser, WorkerStale: lease.WorkerStale(c.LeaseTTL),
		Sweep: admissionSweep, OnDecision: h.metrics.Admitted, ClaimTimeout: claimTimeout, Log: c.Log.Named("admission"),
	})
	h.workspaces = workspace.New(workspace.Config{
		Store: h.store, Recorder: recorder, Redact: c.Redact, Node: h.node, Window: c.UndoWindow, Irreversible: h.tools.Irreversible(),
	})
	h.tasks = task.NewService(task.Config{Store: h.store, Recorder: recorder, Agents: h.agents, Usable: h.models.Usable, Quota: h.plans})
	if h.pushKeys, err = notification.OpenPushKeys(ctx, vault.NewSecrets(h.store, h.vault)); err != nil {
		return err
	}
	h.notify = notification.New(notification.Config{
		PushKeys: h.pushKeys, Contact: c.contact(),
		Store: h.store, Recorder: recorder, Vault: h.vault, Redact: c.Redact, Bus: h.bus, Allow: c.notifyAllow, GiveUp: c.NotifyGiveUp,
		OnSent: h.metrics.Notification, Log: c.Log.Named("notify"),
	})
	h.triggers = trigger.New(trigger.Config{
		Store: h.store, Recorder: recorder, Agents: h.agents, Tasks: h.tasks, Vault: h.vault, Redact: c.Redact, Sweep: triggerSweep, Failures: h.rates, Turns: h.turns,
		Announce: h.notify.Announce, OnDelivery: h.metrics.Delivery, OnResponse: h.metrics.Webhook, Log: c.Log.Named("trigger"),
	})
	h.artifacts = artifact.New(artifact.Config{
		Store: h.store, Recorder: recorder, Redact: c.Redact, Nodes: h.nodes, Node: h.node,
		JailOf: func(ctx context.Context, t db.Task) (*nodev1.JailSpec, error) { return h.steps.Jail(ctx, t) },
	})
	h.subtasks = subtask.New(subtask.Config{
		Artifacts: h.artifacts,
		Store:     h.store, Recorder: recorder, Agents: h.agents, Tasks: h.tasks, Tools: h.tools, Sweep: subtaskSweep,
		Log: c.Log.Named("subtask"),
	})
	h.policies = policy.New(policy.Config{Store: h.store, Recorder: recorder, Vault: h.vault, Redact: c.Redact})
	h.authorities = authority.New(h.store, h.vault)
	h.egress = egresscredential.New(egresscredential.Config{
		Store: h.store, Recorder: recorder, Vault: h.vault, Redact: c.Redact, Persona: h.personaOf, Guard: h.cfg.providerGuard(),
		Ended: h.endCredential, Log: c.Log.Named("credential"),
	})
	h.images = image.New(image.Config{
		Store: h.store, Recorder: recorder, Vault: h.vault, Redact: c.Redact, Node: h.node, Log: c.Log.Named("image"),
	})
	h.execs = nodeexec.New(nodeexec.Config{
		Store: h.store, Recorder: recorder, Agents: h.agents, Vault: h.vault, Redact: c.Redact, Node: h.node, Recorded: h.ackOutcome,
		JailOf: func(ctx context.Context, t db.Task) (*nodev1.JailSpec, error) { return h.steps.VerifiedJail(ctx, t) },
		Log:    c.Log.Named("nodeexec"),
	})
	h.setups = setup.New(setup.Config{Store: h.store, Execs: h.execs, Redact: c.Redact, Node: h.node, Log: c.Log.Named("setup")})
	h.memories = memory.New(memory.Config{Store: h.store, Recorder: recorder, Redact: c.Redact})
	h.knowledge = knowledge.New(knowledge.Config{
		Store: h.store, Recorder: recorder, Redact: c.Redact, Nodes: h.nodes, Node: h.node, Role: h.users.Role, Authorities: h.authorities,
		Credential: func(ctx context.Context, orgID, name, repository string) (*nodev1.Egress_Binding, error) {
			return egresscredential.Reading(ctx, h.egress, orgID, name, repository)
		},
		Models: h.inference, Log: c.Log.Named("knowledge"),
	})
	h.patterns = pattern.New(pattern.Config{Store: h.store, Recorder: recorder, Redact: c.Redact, Models: h.inference, Log: c.Log.Named("pattern")})
	h.steps = step.New(step.Config{
		Memories: h.memories,
		Patterns: matching(h),
		Subtasks: h.subtasks, Policies: h.policies, Plans: h.plans, Role: h.users.Role, Artifacts: h.artifacts,
		Restore: h.workspaces.Restore, GoBack: h.workspaces.GoBack, Outbound: notification.Outbound{Service: h.notify}, Images: h.images, Setups: h.setups, Nodes: h.nodes, Execs: h.execs, Knowledge: h.knowledge, Bindings: h.egress.Bindings, Forge: h.egress.Forge, Passwords: egresscredential.NewPasswords(h.egress),
		Authorities: h.authorities.Of,
		Store:       h.store, Recorder: recorder, Agents: h.agents, Tools: h.tools, Vault: h.vault, Redact: c.Redact,
		Node: h.node, AckOutcome: h.ackOutcome, NodeWait: nodeWait, Tracer: c.Tracer, Log: c.Log.Named("step"),
		Engine: func(ctx context.Context, orgID string) (websearch.Engine, error) {
			return h.credentials.Engine(ctx, orgID)
		},
	})
	h.reviews = review.New(review.Config{
		Store: h.store, Recorder: recorder, Tools: h.tools, Steps: h.steps, Workspaces: h.workspaces, Redact: c.Redact, Node: h.node,
		Sweep: inboxSweep, Log: c.Log.Named("review"),
	})
	h.reports = attempt.New(attempt.Config{
		Review: h.reviews.Open,
		Store:  h.store, Recorder: recorder, Agents: h.agents, Vault: h.vault, Redact: c.Redact, Price: price.Of,
		Propose: h.steps.ProposeTurn, AfterFailure: h.workspaces.AfterFailure,
	})
	h.inbox = inbox.New(inbox.Config{
		Store: h.store, Recorder: recorder, Steps: h.steps, Reviews: h.reviews, Tasks: h.tasks, Agents: h.agents, Budgets: h.budgets, Passkeys: h.passkeys, Vault: h.vault, Redact: c.Redact,
		Sweep: inboxSweep, Log: c.Log.Named("inbox"),
	})
	h.kills = kill.New(kill.Config{
		Store: h.store, Recorder: recorder, Agents: h.agents, Timeout: killTimeout,
		Node: func(id string) (kill.Node, error) { return h.node(id) }, Log: c.Log.Named("kill"),
	})
	h.jobs = job.New(job.Config{Store: h.store, Recorder: recorder, Node: h.node, AckOutcome: h.ackOutcome, Log: c.Log.Named("job")})
	h.watcher = event.NewWatcher(event.WatcherConfig{Store: h.store, Hints: h.bus, Poll: watchPoll, Heartbeat: watchHeartbeat, OnSent: h.metrics.Sent})
	h.self = replica.New(replica.Config{
		Store: h.store, ID: h.replica, Address: h.peerAddress(), Interval: heartbeatInterval,
		StaleAfter: nodeStaleIntervals * heartbeatInterval, Log: c.Log.Named("replica"),
	})
	h.programs = &programs{rates: h.rates, Programs: &program.Programs{Store: h.store, Persona: h.personaOf}}
	h.channels = channel.New(channel.Config{
		Queries: h.store, Credentials: h.egress, Key: h.authorities.Key, Program: h.programs.Serve, Org: h.orgOfNode, Log: c.Log.Named("egress"),
		Node: func(nodeID string) (machine.Link, error) { return h.edge.Local(nodeID) },
	})
	if h.edge, err = edge.New(edge.Config{
		Listener: h.edgeListener, CA: h.ca, Nodes: h.nodes, Replica: h.replica, Directory: h.self, Log: c.Log.Named("edge"),
		HeartbeatInterval: heartbeatInterval, OnChange: h.nodeChanged, Forwarded: h.metrics.Forwarded, OnPressure: h.admission.Kick,
	}); err != nil {
		return err
	}
	if h.auditKey, err = audit.OpenKey(ctx, vault.NewSecrets(h.store, h.vault)); err != nil {
		return err
	}
	if h.leader, err = leader.New(leader.Config{DatabaseURL: c.DatabaseURL.Reveal(), Log: c.Log.Named("leader")}); err != nil {
		return err
	}
	h.reconciler = reconcile.New(reconcile.Config{
		Store: h.store, Recorder: recorder, Edge: h.edge, Node: h.node, Agents: h.agents, Tools: h.tools, Steps: h.steps, Kills: h.kills, Jobs: h.jobs,
		Log: c.Log.Named("reconcile"),
	})
	h.subscribe(changes)
	h.retention = retention.New(retention.Config{Store: h.store, Recorder: recorder, Log: c.Log.Named("retention")})
	h.assembleJobs()
	h.leader.Add("clock", h.triggers.Clock())
	h.leader.Add("notifications", h.notify.Follower())
	h.leader.Add("search", &search.Indexer{Store: h.store, Log: c.Log.Named("search")})
	h.rotation = rotation.New(rotation.Config{
		Store: h.store, Recorder: recorder, Vault: h.vault, Settle: c.RotationSettle, Log: c.Log.Named("rotation"),
	})
	h.leader.Add("rotation", h.rotation)
	h.leader.Add("audit", audit.NewSealer(audit.SealerConfig{
		Store: h.store, Recorder: recorder, Key: h.auditKey, Alert: h.alert, Log: c.Log.Named("audit"),
	}))
	server, err := h.server()
	if err != nil {
		return err
	}
	if c.MetricsListen != "" {
		h.Add("metrics", metricsserver.New(c.MetricsListen, c.Registry, nil, c.Log.Named("metrics")))
	}
	if busServer != nil {
		h.Add("bus server", busServer)
	}
	h.Add("bus", h.bus)
	h.Add("known secrets", h.secrets)
	h.Add("admission", h.admission)
	h.Add("inbox", h.inbox)
	h.Add("reviews", h.reviews)
	h.Add("subtasks", h.subtasks)
	h.Add("commands", h.execs)
	h.Add("triggers", h.triggers)
	h.Add("notifications", h.notify)
	h.Add("leader", h.leader)
	h.Add("replica", h.self)
	h.Add("edge", h.edge)
	h.Add("knowledge", h.knowledge)
	h.Add("relay", h.relay)
	h.Add("api", server)
	return nil
}

// assembleModels creates what calls of models need: credentials, leases, budgets and
// the relay.
func (h *Hub) assembleModels(recorder *event.Recorder) {
	c := h.cfg
	preset := map[string]credential.Access{}
	if c.AnthropicKey != "" {
		p, _ := provider.Of("anthropic")
		preset[p.Name] = credential.Access{Provider: p, BaseURL: c.AnthropicBaseURL, Key: c.AnthropicKey}
	}
	guard := h.cfg.providerGuard()
	h.leases = lease.New(lease.Config{Store: h.store, Recorder: recorder, TTL: c.LeaseTTL, Jailed: h.jailed, OnChange: h.metrics.Leases})
	h.credentials = credential.New(credential.Config{
		Store: h.store, Recorder: recorder, Vault: h.vault, Redact: c.Redact, Preset: preset, Restored: inbox.ProviderRestored, Guard: guard,
	})
	h.models = modelaccess.New(modelaccess.Config{Store: h.store, Agents: h.agents, Leases: h.leases, Quotas: h.plans, Credentials: h.credentials})
	h.budgets = budget.New(budget.Config{
		Store: h.store, Recorder: recorder, Cap: h.models.CostCap, Raised: inbox.BudgetRaised, MaxCall: relay.MaxCall, Log: c.Log.Named("budget"),
	})
	h.inference = inference.New(inference.Config{
		Usable: func(ctx context.Context, orgID, provider, model string) error {
			return h.models.Usable(ctx, h.store.Queries, orgID, provider, model)
		},
		Price: func(ctx context.Context, orgID, provider, model string) (price.Model, error) {
			return price.Of(ctx, h.store.Queries, orgID, provider, model)
		},
		Access: h.credentials.Access, Refused: h.credentials.Refuse, Turn: h.plans.AllowCall, Reserve: h.budgets.Reserve, Settle: h.budgets.Settle,
		Guard: guard, Redact: c.Redact,
	})
	h.relay = relay.New(relay.Config{
		Authorize: h.models.Authorize, Ended: h.leases.Ended, Models: h.models.TaskModels, Refused: h.credentials.Refuse, Access: h.credentials.Access,
		Disconnected: h.credentials.Disconnected,
		Turn:         h.plans.AllowCall,
		Reserve:      h.budgets.Reserve, Settle: h.budgets.Settle, Tracer: c.Tracer, Redact: c.Redact, Log: c.Log.Named("relay"), Guard: guard, Failures: h.rates,
	})
}

// Start serves. The hub's listeners are open since Complete, so a client that
// comes before is answered as soon as this returns.
func (h *Hub) Start(ctx context.Context) error {
	if err := h.bootstrap(ctx); err != nil {
		return err
	}
	if err := h.Group.Start(ctx); err != nil {
		return err
	}
	where := []any{"api", h.URL(), "edge", h.EdgeAddress(), "edge_listen", h.edgeListener.Addr().String(), "replica", h.replica}
	if h.nats != nil {
		where = append(where, "bus", h.nats.URL())
	}
	h.cfg.Log.Info("hub is ready", where...)
	return nil
}

// Stop ends everything in order and closes the database.
func (h *Hub) Stop() {
	h.Group.Stop()
	h.channels.Close()
	h.reconciler.Wait()
	h.background.Wait()
	h.inference.Close()
	h.budgets.Wait()
	h.rollouts.Close()
	h.close()
}

func (h *Hub) close() {
	if h.listener != nil {
		_ = h.listener.Close()
	}
	if h.localListener != nil {
		_ = h.localListener.Close()
	}
	if h.edgeListener != nil {
		_ = h.edgeListener.Close()
	}
	if h.store != nil {
		h.store.Close()
	}
}

// alert has destinations told of an audit entry of high or critical severity.
func (h *Hub) alert(ctx context.Context, tx *event.Tx, e db.AuditEntry) error {
	return h.notify.Announce(ctx, tx, notification.Event{
		OrgID: e.OrgID, Kind: string(eventkind.AuditHigh), Object: e.ObjectID, Once: fmt.Sprintf("audit.%d", e.ID), Details: map[string]any{
			"entry_id": e.ID, "severity": e.Severity, "actor": e.ActorID, "action": e.Action, "object_kind": e.ObjectKind, "object_id": e.ObjectID,
			"address": e.Address, "user_agent": e.UserAgent, "reason": e.Reason, "time": e.Time.UTC().Format(time.RFC3339Nano),
		},
	})
}

// NATS is the embedded bus server; nil when another is used.
func (h *Hub) NATS() *bus.Server { return h.nats }

// hint tells watchers that a task has events.
func (h *Hub) hint(orgID, taskID string) {
	// Watchers poll besides: a hint that is lost costs them a moment.
	if err := h.bus.PublishEvent(orgID, taskID); err != nil {
		h.cfg.Log.Debug("cannot publish an event hint", "task_id", taskID, "error", err)
	}
}

func (h *Hub) node(nodeID string) (machine.Link, error) {
	link, err := h.edge.Node(nodeID)
	if err != nil {
		return nil, err
	}
	orgID, err := h.orgOfNode(nodeID)
	if err != nil {
		return nil, err
	}
	return masklog.Masked(link, h.cfg.Redact.Org(orgID)), nil
}

// nodeOrgTimeout bounds a look at whose a node is.
const nodeOrgTimeout = 5 * time.Second

// orgOfNode returns whose a node is, which never changes.
func (h *Hub) orgOfNode(nodeID string) (string, error) {
	if orgID, ok := h.nodeOrgs.Load(nodeID); ok {
		return orgID.(string), nil //nolint:forcetypeassert // see Store
	}
	ctx, cancel := context.WithTimeout(context.Background(), nodeOrgTimeout)
	defer cancel()
	row, err := h.store.NodeByID(ctx, nodeID)
	if err != nil {
		return "", fmt.Errorf("load node %s: %w", nodeID, err)
	}
	h.nodeOrgs.Store(nodeID, row.OrgID)
	return row.OrgID, nil
}

// ackOutcome tells a node that the outcome of a command is stored here.
func (h *Hub) ackOutcome(nodeID, id string) { h.edge.Recorded(nodeID, id) }

func (h *Hub) telemetry(nodeID string) (nodev1.TelemetryServiceClient, error) {
	link, err := h.edge.Node(nodeID)
	if err != nil {
		return nil, err
	}
	return link.Telemetry(), nil
}

// nodeChanged lets tasks start that waited for the node.
func (h *Hub) nodeChanged(nodeID string, connected bool) {
	h.metrics.Link(connected)
	h.channels.Changed(nodeID, connected)
	if !connected {
		return
	}
	h.execs.Connected(nodeID)
	h.reconciler.NodeConnected(nodeID)
}

// jailed reports whether a task has anything to do in a jail.
func (h *Hub) jailed(ctx context.Context, q *db.Queries, t db.Task) (bool, error) {
	p, err := h.agents.PersonaOf(ctx, q, t.OrgID, t.AgentID, t.AgentVersion)
	if err == nil {
		p, err = task.EffectivePersona(t, p)
	}
	return err != nil || t.InputCount > 0 || h.tools.Jailed(p), err
}
