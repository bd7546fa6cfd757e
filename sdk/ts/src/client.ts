import { createClient, type CallOptions, type Client as ConnectClient, type Transport } from "@connectrpc/connect";
import type { DescService } from "@bufbuild/protobuf";
import { DeckhandError } from "./error.js";
import { AccessService } from "./gen/deckhand/v1/access_pb.js";
import { AgentService } from "./gen/deckhand/v1/agent_pb.js";
import { AuditService, ControlService } from "./gen/deckhand/v1/control_pb.js";
import { CredentialService } from "./gen/deckhand/v1/credential_pb.js";
import { DestinationService } from "./gen/deckhand/v1/destination_pb.js";
import { DiagnosticsService } from "./gen/deckhand/v1/diagnostics_pb.js";
import { EventService, type Event } from "./gen/deckhand/v1/event_pb.js";
import { FeedbackService } from "./gen/deckhand/v1/feedback_pb.js";
import { FileService } from "./gen/deckhand/v1/file_pb.js";
import { HistoryService } from "./gen/deckhand/v1/history_pb.js";
import { ImageService } from "./gen/deckhand/v1/image_pb.js";
import { InboxService } from "./gen/deckhand/v1/inbox_pb.js";
import { InsightService } from "./gen/deckhand/v1/insight_pb.js";
import { KnowledgeService } from "./gen/deckhand/v1/knowledge_pb.js";
import { MachineService } from "./gen/deckhand/v1/machine_pb.js";
import { MemoryService } from "./gen/deckhand/v1/memory_pb.js";
import { NodeService } from "./gen/deckhand/v1/node_pb.js";
import { NodeExecService } from "./gen/deckhand/v1/node_exec_pb.js";
import { NodeTelemetryService } from "./gen/deckhand/v1/node_telemetry_pb.js";
import { OrganisationService } from "./gen/deckhand/v1/organisation_pb.js";
import { PackService } from "./gen/deckhand/v1/pack_pb.js";
import { PasskeyService } from "./gen/deckhand/v1/passkey_pb.js";
import { PatternService } from "./gen/deckhand/v1/pattern_pb.js";
import { PlanService } from "./gen/deckhand/v1/plan_pb.js";
import { PolicyService } from "./gen/deckhand/v1/policy_pb.js";
import { BudgetService, ProviderService } from "./gen/deckhand/v1/provider_pb.js";
import { PushService } from "./gen/deckhand/v1/push_pb.js";
import { QueueService } from "./gen/deckhand/v1/queue_pb.js";
import { RetentionService } from "./gen/deckhand/v1/retention_pb.js";
import { SessionService } from "./gen/deckhand/v1/session_pb.js";
import { TaskService, type Task } from "./gen/deckhand/v1/task_pb.js";
import { TaskPlanService } from "./gen/deckhand/v1/task_plan_pb.js";
import { TeamService } from "./gen/deckhand/v1/team_pb.js";
import { TokenService } from "./gen/deckhand/v1/token_pb.js";
import { ToolService } from "./gen/deckhand/v1/tool_pb.js";
import { TriggerService } from "./gen/deckhand/v1/trigger_pb.js";
import { UserService } from "./gen/deckhand/v1/user_pb.js";
import { VaultService } from "./gen/deckhand/v1/vault_pb.js";
import { WorkspaceService } from "./gen/deckhand/v1/workspace_pb.js";
import { ErrorCode } from "./gen/errors.js";
import { list, type List, type RowOf } from "./list.js";
import { createTransport, type Options } from "./transport.js";
import { watch, type WatchItem, type WatchOptions, type WatchRequest } from "./watch.js";

/** Service has the calls of a service. Those that list something return a List. */
export type Service<Desc extends DescService> = {
  [Name in keyof ConnectClient<Desc>]: ConnectClient<Desc>[Name] extends (request: infer Req, options?: CallOptions) => Promise<infer Res>
    ? Res extends { nextPageToken: string }
      ? (request: Req, options?: CallOptions) => List<Res, RowOf<Res>>
      : ConnectClient<Desc>[Name]
    : ConnectClient<Desc>[Name];
};

// service returns the calls of a service.
function service<Desc extends DescService>(desc: Desc, transport: Transport): Service<Desc> {
  const calls = createClient(desc, transport) as Record<string, unknown>;
  for (const method of desc.methods) {
    const paged = method.methodKind === "unary" && method.output.fields.some((f) => f.name === "next_page_token");
    if (paged) calls[method.localName] = list(calls[method.localName] as never);
  }
  return calls as Service<Desc>;
}

// downloadPart is how much of a file is read at once, the most that the hub allows.
const downloadPart = 4 << 20;

// eventPage is how many events of a history are read at once.
const eventPage = 1000;

/**
 * Client calls one hub. Each service has its calls, which take a request and options, such as
 * an AbortSignal and headers. They are rejected with a DeckhandError.
 */
export class Client {
  /** What the calls are sent with. */
  readonly transport: Transport;
  /** From where calls may come. */
  readonly access: Service<typeof AccessService>;
  readonly agents: Service<typeof AgentService>;
  readonly audit: Service<typeof AuditService>;
  readonly budgets: Service<typeof BudgetService>;
  /** Kills and holds. */
  readonly control: Service<typeof ControlService>;
  /** Inserted into requests of agents' commands. */
  readonly credentials: Service<typeof CredentialService>;
  /** Receive notifications. */
  readonly destinations: Service<typeof DestinationService>;
  /** What is wrong with the installation. */
  readonly diagnostics: Service<typeof DiagnosticsService>;
  readonly events: Service<typeof EventService>;
  readonly files: Service<typeof FileService>;
  /** Compares and analyses past runs. */
  readonly history: Service<typeof HistoryService>;
  /** Those that jails are made from. */
  readonly images: Service<typeof ImageService>;
  readonly packs: Service<typeof PackService>;
  readonly inbox: Service<typeof InboxService>;
  /** What nodes' operators show of their machines. */
  readonly machines: Service<typeof MachineService>;
  readonly nodeExecs: Service<typeof NodeExecService>;
  readonly nodes: Service<typeof NodeService>;
  /** An operator's. */
  readonly organisations: Service<typeof OrganisationService>;
  /** Log people in, and prove what they decide. */
  readonly passkeys: Service<typeof PasskeyService>;
  /** What the organisation may have. */
  readonly plans: Service<typeof PlanService>;
  readonly policies: Service<typeof PolicyService>;
  readonly providers: Service<typeof ProviderService>;
  /** The caller's devices. */
  readonly push: Service<typeof PushService>;
  readonly queue: Service<typeof QueueService>;
  /** How long records are kept, and which may not be deleted. */
  readonly retention: Service<typeof RetentionService>;
  /** Log people in. */
  readonly sessions: Service<typeof SessionService>;
  /** The plans that agents make of their tasks. */
  readonly taskPlans: Service<typeof TaskPlanService>;
  readonly tasks: Service<typeof TaskService>;
  readonly teams: Service<typeof TeamService>;
  readonly feedback: Service<typeof FeedbackService>;
  readonly insights: Service<typeof InsightService>;
  readonly knowledge: Service<typeof KnowledgeService>;
  readonly memories: Service<typeof MemoryService>;
  readonly patterns: Service<typeof PatternService>;
  readonly telemetry: Service<typeof NodeTelemetryService>;
  readonly tokens: Service<typeof TokenService>;
  /** Those that agents may call. */
  readonly tools: Service<typeof ToolService>;
  readonly triggers: Service<typeof TriggerService>;
  readonly users: Service<typeof UserService>;
  /** An operator's. */
  readonly vault: Service<typeof VaultService>;
  readonly workspaces: Service<typeof WorkspaceService>;

  /** It does not connect: the first call does. */
  constructor(options: Options) {
    const transport = createTransport(options);
    this.transport = transport;
    this.access = service(AccessService, transport);
    this.agents = service(AgentService, transport);
    this.audit = service(AuditService, transport);
    this.budgets = service(BudgetService, transport);
    this.control = service(ControlService, transport);
    this.credentials = service(CredentialService, transport);
    this.destinations = service(DestinationService, transport);
    this.diagnostics = service(DiagnosticsService, transport);
    this.events = service(EventService, transport);
    this.files = service(FileService, transport);
    this.history = service(HistoryService, transport);
    this.images = service(ImageService, transport);
    this.packs = service(PackService, transport);
    this.inbox = service(InboxService, transport);
    this.machines = service(MachineService, transport);
    this.nodeExecs = service(NodeExecService, transport);
    this.nodes = service(NodeService, transport);
    this.organisations = service(OrganisationService, transport);
    this.passkeys = service(PasskeyService, transport);
    this.plans = service(PlanService, transport);
    this.policies = service(PolicyService, transport);
    this.providers = service(ProviderService, transport);
    this.push = service(PushService, transport);
    this.queue = service(QueueService, transport);
    this.retention = service(RetentionService, transport);
    this.sessions = service(SessionService, transport);
    this.taskPlans = service(TaskPlanService, transport);
    this.tasks = service(TaskService, transport);
    this.teams = service(TeamService, transport);
    this.feedback = service(FeedbackService, transport);
    this.insights = service(InsightService, transport);
    this.knowledge = service(KnowledgeService, transport);
    this.memories = service(MemoryService, transport);
    this.patterns = service(PatternService, transport);
    this.telemetry = service(NodeTelemetryService, transport);
    this.tokens = service(TokenService, transport);
    this.tools = service(ToolService, transport);
    this.triggers = service(TriggerService, transport);
    this.users = service(UserService, transport);
    this.vault = service(VaultService, transport);
    this.workspaces = service(WorkspaceService, transport);
  }

  /**
   * watch returns events as they happen, and those that are stored already unless fromNow is
   * set. When the connection breaks, it connects again and goes on after the last cursor: no
   * stored event is missed or repeated. Live thinking and progress are not stored: a piece may
   * be missed.
   *
   * It ends when every watched task has ended or, without follow, after the stored events.
   * Pass the cursor of the last item to another watch to continue after it.
   */
  async *watch(request: WatchRequest, options?: WatchOptions): AsyncGenerator<WatchItem, void, void> {
    for await (const response of watch(this.events.watch, request, options)) {
      if (response.item.case !== undefined && response.item.case !== "heartbeat") yield response as WatchItem;
    }
  }

  /**
   * waitForTask waits until a task is in a final state, and returns it. It does not poll: it
   * watches the task's events, over broken connections and restarts of the hub. Whether the
   * task has succeeded is in its state.
   */
  async waitForTask(taskId: string, options?: WatchOptions): Promise<Task> {
    // The hub ends the watch when the task has ended.
    for await (const _ of watch(this.events.watch, { taskIds: [taskId], types: ["state_changed"], follow: true }, options));
    const { task } = await this.tasks.getTask({ taskId }, { signal: options?.signal });
    if (!task) throw new DeckhandError("internal", "The hub returned no task.");
    return task;
  }

  /**
   * taskEvents returns the stored events of a task with a number above afterSeq, in order, up
   * to those that are there now. watch follows what comes.
   */
  async *taskEvents(taskId: string, options: { afterSeq?: bigint; signal?: AbortSignal } = {}): AsyncGenerator<Event, void, void> {
    for (let afterSeq = options.afterSeq ?? 0n; ; ) {
      const { events, newestSeq } = await this.events.listEvents({ taskId, afterSeq, pageSize: eventPage }, { signal: options.signal });
      yield* events;
      afterSeq = events.at(-1)?.seq ?? newestSeq;
      if (afterSeq >= newestSeq) return;
    }
  }

  /**
   * downloadFile returns a file of the workspace that a task worked in. It fails if the file
   * changes meanwhile, or if it is not what its digest says.
   */
  async downloadFile(taskId: string, path: string, options?: { signal?: AbortSignal }): Promise<Uint8Array<ArrayBuffer>> {
    let content = new Uint8Array(0);
    let digest: string | undefined;
    for (let read = 0; ; ) {
      const part = await this.files.readFile(
        { workspace: { case: "taskId", value: taskId }, path, offset: BigInt(read), limit: BigInt(downloadPart) },
        { signal: options?.signal },
      );
      if (digest === undefined) content = new Uint8Array(Number(part.size));
      digest ??= part.digest;
      if (BigInt(content.length) !== part.size || part.digest !== digest || read + part.content.length > content.length) throw changed(path);
      content.set(part.content, read);
      read += part.content.length;
      if (read === content.length) break;
      if (part.content.length === 0) throw changed(path);
    }
    // Files over 64 MiB have no digest, and pages without TLS no Web Crypto.
    if (digest && globalThis.crypto?.subtle && digest !== hex(await crypto.subtle.digest("SHA-256", content))) throw changed(path);
    return content;
  }
}

function hex(bytes: ArrayBuffer): string {
  return [...new Uint8Array(bytes)].map((b) => b.toString(16).padStart(2, "0")).join("");
}

function changed(path: string): DeckhandError {
  return new DeckhandError("aborted", `The file ${JSON.stringify(path)} changed while it was downloaded.`, {
    code: ErrorCode.FileConflict,
    fix: "Download it again.",
  });
}
