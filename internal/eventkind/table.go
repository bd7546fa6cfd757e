package eventkind

// table has all kinds of a task's history, sorted by kind.
var table = []Entry{
	{
		Kind:    AgentHandedOver,
		When:    "a call handed the task's work to another agent",
		Payload: "as `agent.subtask.created`, and `handoff_id`",
	},
	{
		Kind: AgentRetry, Groups: []Group{Lifecycles},
		When:    "a run failed in a way that trying again may mend",
		Payload: "`error_code`, `message`, `retry` (from 1), `retries` (the most), `wait_ms`",
	},
	{
		Kind: AgentSpawned, Groups: []Group{Lifecycles},
		When:    "a worker claims the task",
		Payload: "`attempt`, `worker_id`, `provider`, `model`, `jail_id`, `node_id` (null while no node is chosen), `image`, `image_digest` (empty without an image)",
	},
	{
		Kind: AgentSubtaskCreated, Groups: []Group{Lifecycles},
		When:    "a call created a [subtask](subtasks.md)",
		Payload: "`step_id`, `task_id`, `agent`, `goal`, `tool`, `reason` (the context or title that the call gave, cut after 500 characters)",
	},
	{
		Kind:    AgentSubtaskEnded,
		When:    "a subtask ended",
		Payload: "`step_id`, `task_id`, `agent`, `state`, `cost_micros`, `iterations`, `error_code`",
	},
	{
		Kind: AgentSuspended, Groups: []Group{Failures},
		When:    "the way the run ended suspended its agent",
		Payload: "`agent` (name), `reason`, `fix` (a command)",
	},
	{
		Kind: ApprovalRequested, Groups: []Group{Approvals},
		When:    "a call waits for a person's leave",
		Payload: "`item_id`, `step_id`, `number`, `turn`, `tool`, `category`, `arguments`, `preview`, `why`, `expires_at`, `on_expiry`",
	},
	{
		Kind:    ArtifactsDelivered,
		When:    "they have arrived",
		Payload: "`transfer_id`, `folder`, `files`, `bytes`, `paths`, `missing`",
	},
	{
		Kind:    ArtifactsPromised,
		When:    "files of another workspace will arrive before the task starts",
		Payload: "`from_task_id`, `folder`, `files`, `bytes`, `paths`, `shared` (bool)",
	},
	{
		Kind:    BrowserActed,
		When:    "a person who has taken over the task's browser did something with it",
		Payload: "`by`, `what` (`clicked`, `right-clicked`, `middle-clicked`, `dragged to`, `scrolled`, `typed`, `pressed`, `accepted`, `dismissed`), `on` (the element, as the page describes it), `url` (of the page, without its parameters), `text`, `secret` (true for a field for a secret: the text is empty), `unsure` (true if it is not known whether it took effect), `problem`",
	},
	{
		Kind:    BrowserGiven,
		When:    "the browser is the agent's again",
		Payload: "`by`, `reason`, `acts` (how many were recorded; absent if its hub ended)",
	},
	{
		Kind:    BrowserTaken,
		When:    "a person took over the task's browser: the agent's next call of it waits",
		Payload: "`by`",
	},
	{
		Kind: BudgetWarning, Groups: []Group{Budgets},
		When:    "a call brought a budget to 80 % of its limit; once for each limit",
		Payload: "`scope` (`task`, `lineage`, `user`, `organisation`), `object_id`, `period` (empty, `2026-11` or `2026-11-22`), `spent_micros`, `limit_micros`",
	},
	{
		Kind: CacheMissed, Worker: true,
		When:    "after six turns the provider has read nothing from its prompt cache; once for each task",
		Payload: "`turns`, `prompt_tokens` (of the newest turn), `reason` (the likely one)",
	},
	{
		Kind: CheckpointCreated, Worker: true, Groups: []Group{Stream},
		When:    "in the transaction that stores the checkpoint",
		Payload: "`iteration`, `reason` (`auto`; `risk` or `step` for the point before a call, with its `step_id` and the checkpoint's `name`)",
	},
	{
		Kind: ContextSummarized, Worker: true,
		When:    "old turns were replaced by a summary",
		Payload: "`up_to_turn`, `by` (a model, or `index`), `tokens_before`, `tokens_after`, `limit`",
	},
	{
		Kind:    CredentialUsed,
		When:    "a node has reported requests of the task's commands with a [credential](credentials.md): one event for each report and credential",
		Payload: "`credential`, `requests`, `problems` (how many of them have one), `hosts` and `step_ids` (at most 10); of the last request: `method`, `host`, `path`, `status`, `problem`",
	},
	{
		Kind:    EgressRefused,
		When:    "after `tool_completed` of a step whose command wanted to reach what its persona does not allow",
		Payload: "`step_id`, `number`, `tool`, `error_code` (`AGENT_016`), `refused` [{`host`, `method`, `reason`, `allow` (what the persona would have to say), `count`}]",
	},
	{
		Kind: ExecutionCancelled, Groups: []Group{Stream},
		When:    "the task was cancelled or killed",
		Payload: "`reason`; `error_code` (`AGENT_027`) of the kill switch",
	},
	{
		Kind: ExecutionCompleted, Worker: true, Groups: []Group{Stream},
		When:    "the run ends well",
		Payload: "`iterations`, `active_ms`, `usage` (of the whole task), `summary`",
	},
	{
		Kind: ExecutionFailed, Worker: true, Groups: []Group{Stream},
		When:    "the run ends otherwise",
		Payload: "`iterations`, `active_ms`, `usage`, `error_code`, `message`, `recoverable` (whether the hub tries again); `summary` if the agent ended the run itself",
	},
	{
		Kind: ExecutionPaused, Worker: true,
		When:    "a person must mend something first",
		Payload: "as `execution_failed`, with `recoverable` true",
	},
	{
		Kind: ExecutionResumed, Worker: true,
		When:    "a later attempt begins",
		Payload: "as `execution_started`",
	},
	{
		Kind: ExecutionStarted, Worker: true, Groups: []Group{Stream},
		When:    "the first attempt begins",
		Payload: "`attempt`, `provider`, `model`, `scripted` (bool), `iteration` (finished ones), `turns` (stored ones), `tools` (names), `limits` {`iterations`, `active_time_s`, `tokens`, `calls`, `cost_usd`, `files`, `file_size_bytes`}",
	},
	{
		Kind: GuardrailNudge, Worker: true,
		When:    "the agent repeats itself and was told so",
		Payload: "`iteration`, `kind`, `finding`, `iterations_left`",
	},
	{
		Kind: GuardrailStopped, Worker: true,
		When:    "the agent went on repeating itself and was stopped",
		Payload: "as `guardrail_nudge`, without `iterations_left`",
	},
	{
		Kind:    ImagePulling,
		When:    "the jail's [image](images.md) is being pulled: at the start of a phase, and every 5 s",
		Payload: "`image`, `reference`, `node`, `phase` (`downloading`, `preparing`), `layers`, `layers_done`, `bytes`, `bytes_done`",
	},
	{
		Kind:    ImageReady,
		When:    "the image is on the node, and its digest is the task's from now on",
		Payload: "`image`, `reference`, `node`, `platform`, `bytes`, `layers`, `pulled`, `setup` (digest, if there is one), `seconds`",
	},
	{
		Kind:    ImageSetup,
		When:    "the image is being [prepared](images.md): at each command of `jail.setup`, also if another task started it",
		Payload: "`image`, `node`, `line`, `lines`, `command`, `exec_id`",
	},
	{
		Kind:    InboxAnswered,
		When:    "a person answered one of these",
		Payload: "`item_id`, `kind`, `step_id`, `tool`, `answer`, `reply`, `reason`, `by`, `changed` (bool), `waited_ms` (since it was opened)",
	},
	{
		Kind:    InboxExpired,
		When:    "nobody did in time",
		Payload: "`item_id`, `kind`, `step_id`, `tool`, `on_expiry`",
	},
	{
		Kind: InputRequired, Groups: []Group{Questions, Stream},
		When:    "the agent asks a question",
		Payload: "as `approval_requested`, and `question`, `answer_kind`, `options` [{`label`, `description`}], `default`, `attachments` [{`path`, `size_bytes`, `sha256`, `problem`}]",
	},
	{
		Kind: IterationComplete, Worker: true, Groups: []Group{Stream},
		When:    "an iteration closes",
		Payload: "`iteration`, `phases_ms` {phase: time}, `usage` of its turn, `reflection` {`goal_achieved`, `progress`, `what_happened`, `issues`, `next_action`, `needs_person`}",
	},
	{
		Kind:    JailNotFrozen,
		When:    "the jail could not be frozen while its task waits",
		Payload: "`jail_id`, `node_id`, `reason`",
	},
	{
		Kind:    JobEnded,
		When:    "a background command ended",
		Payload: "`job_id`, `step_id`, `end_reason`, `exit_code`, `signal`, `log_bytes`, `members_left`, `egress` as in `outcome` of `tool_completed`; `workspace` if it changed files while no call ran",
	},
	{
		Kind:    JobStarted,
		When:    "a command of the task goes on in the [background](jobs.md)",
		Payload: "`job_id`, `step_id` (of the call that started it), `command`",
	},
	{
		Kind: LimitReached, Worker: true, Groups: []Group{Budgets},
		When:    "the run ends, or pauses, at a limit",
		Payload: "as `limit_warning`",
	},
	{
		Kind: LimitWarning, Worker: true,
		When:    "80 % of a limit are used; once for each limit",
		Payload: "`kind` (`iterations`, `active_time` in seconds, `tokens`, `calls`, `cost_usd`, `files`, `file_size` in bytes), `limit`, `current`; `limit_reached` also `quota` (bool): a quota had lowered the limit, and the run waits in the queue for more",
	},
	{
		Kind:    LimitsLifted,
		When:    "an admin lets the run have more",
		Payload: "`limits` (those that are not the persona's), `by`",
	},
	{
		Kind:    MCPProblems,
		When:    "MCP servers, or tools of them, that cannot be had as an attempt begins",
		Payload: "`problems` (texts)",
	},
	{
		Kind:    MCPToolChanged,
		When:    "an MCP server offers a tool otherwise than was agreed on, a new one, one no more, or again as agreed on",
		Payload: "`tool`, `server`, `change`",
	},
	{
		Kind:    MessageDelivered,
		When:    "the model gets messages with its next turn",
		Payload: "`message_ids`, `after_turn`",
	},
	{
		Kind:    MessageReceived,
		When:    "a person said something to the agent",
		Payload: "`message_id`, `text`, `by`; with `interrupt`, `stopped` (the steps whose commands were killed)",
	},
	{
		Kind:    MessageWithdrawn,
		When:    "a person took a message back before the model got it",
		Payload: "`message_id`, `by`",
	},
	{
		Kind: ModelFailover, Worker: true,
		When:    "another model goes on, since the one before did not answer",
		Payload: "`from_provider`, `from_model`, `to_provider`, `to_model`, `reason`",
	},
	{
		Kind:    ModelOutage,
		When:    "no model of the task answers; it waits for this one, without a slot",
		Payload: "`provider`, `model`, `error_code`, `message`, `since`, `until` (when it is escalated)",
	},
	{
		Kind: OutcomeUnknown, Groups: []Group{Approvals},
		When:    "nobody knows whether a call took effect",
		Payload: "as `approval_requested`, and `evidence`",
	},
	{
		Kind:    PauseRequested,
		When:    "a person wants a pause before the next tool call, or no longer",
		Payload: "`on_next_tool` (bool), `by`",
	},
	{
		Kind: PhaseChanged, Worker: true, Groups: []Group{Stream},
		When:    "the loop enters a phase",
		Payload: "`iteration`, `phase`, `index` (1 to 7), and unless it is the iteration's first: `from`, `from_ms` (time spent in the phase before); `resumed` (true) when another attempt began this iteration. By phase: `update_plan` has `plan` (`none`, `kept`, `revised`), `items`, `next`; `think` has `messages`; `select_tool` and `execute_action` have `calls`; `observe_result` has `succeeded`, `failed`, `bytes`",
	},
	{
		Kind: PlanReached, Groups: []Group{Budgets},
		When:    "the task was the last run that the month's quota allows",
		Payload: "`plan`, `period` (`2026-11`), `used`, `runs`, `resets_at`",
	},
	{
		Kind: PlanUpdated, Worker: true, Groups: []Group{Stream},
		When:    "the agent set its plan, or a person changed it",
		Payload: "`turn`, `items` [{`id`, `title`, `status`, `parent`, `depends_on`}], `success_criteria`, `risks`, `progress` (0 to 1); with a person's change `revision`, `by` and `change`",
	},
	{
		Kind: PlanWarning, Groups: []Group{Budgets},
		When:    "the task was the run that brought the month to 80 % of the plan's",
		Payload: "`plan`, `period` (`2026-11`), `used`, `runs`, `resets_at`",
	},
	{
		Kind: ProgressUpdate, Worker: true, Groups: []Group{Stream},
		When:    "an iteration closes",
		Payload: "`iteration`, `progress` (0 to 1), `next_action`",
	},
	{
		Kind:    ReviewRequested,
		When:    "a run in review mode is done",
		Payload: "`item_id`, `files`, `deferred` and `hosts` (how many), `why`",
	},
	{
		Kind:    StateChanged,
		When:    "the task goes from one state to another",
		Payload: "`from`, `to`, `reason`",
	},
	{
		Kind: TaskAssigned, Groups: []Group{Lifecycles},
		When:    "a person gave the task, which was there already, to an agent or a person",
		Payload: "`agent` (name) or `assignee` (user), `by`",
	},
	{
		Kind:    TaskEscalated,
		When:    "retries are spent: a person must decide",
		Payload: "`item_id`, `cause`, `error_code`, `failures`, `worker_losses`, `options` (commands)",
	},
	{
		Kind:    TaskMemoryRaised,
		When:    "a command was killed for memory, and the task goes on with more",
		Payload: "`step_id`, `from_bytes`, `to_bytes`, `max_bytes` (what the persona allows)",
	},
	{
		Kind:    TaskReordered,
		When:    "a person put a queued task to another place",
		Payload: "`priority_before`, `priority`, and `first` (true) or `before` (a task)",
	},
	{
		Kind:    TaskRestored,
		When:    "the hub was restored from a [backup](backup.md), and the task was compared with what its nodes did since",
		Payload: "`verdict` (`recovered`, `uncertain`), `reason`, `elsewhere` (how many effects of nodes may be of any task), `count` and `steps` (at most 50) of what the nodes have and the backup has not: [{`id`, `step_id` (empty for one that the backup does not have), `node_id`, `node`, `what`, `outcome`, `began_at`}]",
	},
	{
		Kind:    TaskSubmitted,
		When:    "the task is created",
		Payload: "who submitted it and how: see [the queue](queue.md)",
	},
	{
		Kind: Thinking, Worker: true, Groups: []Group{Stream},
		When:    "a turn of the model is finished; once for each turn",
		Payload: "`turn`, `text` (reasoning and answer, at most 256 KiB), `calls` (tool names), `stop_reason` (`end_turn`, `tool_use`, `max_tokens`, `refusal`), `provider`, `model`, `usage` (without cost)",
	},
	{
		Kind: ToolCompleted, Groups: []Group{Stream},
		When:    "the step's outcome is stored",
		Payload: "`step_id`, `number`, `tool`, `state`, `error_code`, `outcome`, `log_bytes`, `duration_ms`; `workspace` of a tool that may change files: `files` changed, the first `paths`, the workspace's `state` after it, `shared_with`, `not_restorable`, `error`",
	},
	{
		Kind:    ToolDeferred,
		When:    "a call became a step and is deferred until somebody accepts the run",
		Payload: "as `tool_selected`",
	},
	{
		Kind:    ToolDenied,
		When:    "a call became a step and may not run, or is skipped because one before it in its turn was not approved",
		Payload: "as `tool_selected`",
	},
	{
		Kind: ToolExecuting, Groups: []Group{Stream},
		When:    "the step is handed to where it runs",
		Payload: "`step_id`, `number`, `tool`",
	},
	{
		Kind: ToolRejected, Worker: true,
		When:    "a call that never became a step: an invented tool, wrong arguments, a plan that contradicts itself, too many calls in one turn",
		Payload: "`turn`, `call_index`, `tool`, `error_code`, `message`",
	},
	{
		Kind: ToolSelected, Groups: []Group{Stream},
		When:    "a call became a step and may run",
		Payload: "`step_id`, `number`, `turn`, `tool`, `arguments` (secrets masked), `reason`",
	},
	{
		Kind: WorkStopped, Groups: []Group{Escalations},
		When:    "an inbox item was opened because the work needs a person to go on: see [inbox](inbox.md)",
		Payload: "`item_id`, `kind` (`limit`, `budget`, `suspended`, `egress` or `provider`), `subject`, `title`, `why`",
	},
	{
		Kind:    WorkspaceRestored,
		When:    "a task that goes on from a checkpoint, or whose run failed, got the workspace of it",
		Payload: "`undo_id`, `state`, `files`, `original_digest`, `restored_digest`",
	},
	{
		Kind:    WorkspaceUndone,
		When:    "changes of files were undone",
		Payload: "`undo_id`, `step_ids`, `files`, `original_digest`, `restored_digest`, `conflicts`, `paths` (none for all of the steps' files); of a folder of a machine also `node_id`, `folder`",
	},
}
