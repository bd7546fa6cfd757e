package fault

import "slices"

// Entry describes one code of the catalogue.
type Entry struct {
	Code Code
	// Kinds are those that an error of the code may have; the first is the usual
	// one.
	Kinds []Kind
	// Title is a few words.
	Title string
	// What describes when the code is used and, if another code is similar,
	// when it is not.
	What string
	// Fix is what a person or a program can do about it in general. An error
	// has its own fix if more is known.
	Fix string
	// Retry reports whether the same request may succeed later without any
	// change.
	Retry bool
	// Internal reports that the code is used only between Deckhand's own
	// processes and is never shown to users.
	Internal bool
}

// Catalogue returns a copy of the table of all codes, in the order of the
// constants.
func Catalogue() []Entry { return slices.Clone(catalogue) }

// Lookup returns the entry of a code, and whether there is one.
func Lookup(code Code) (Entry, bool) {
	i := slices.IndexFunc(catalogue, func(e Entry) bool { return e.Code == code })
	if i < 0 {
		return Entry{}, false
	}
	return catalogue[i], true
}

var catalogue = []Entry{
	{
		Code: TaskParsing, Kinds: []Kind{Invalid}, Title: "Definition not valid",
		What: "A persona, a trigger or a model script cannot be read, or a field of it has a value that is not allowed. For the fields of a call or the arguments of a tool the code is AGENT_012.",
		Fix:  "Correct the field that the message names, then apply the definition again.",
	},
	{
		Code: PermissionDenied, Kinds: []Kind{Denied, Precondition}, Title: "Not allowed",
		What: "The caller's role, token, team or network does not allow the call; or, for a tool call, the persona, the policy, the quota or a person refused it. A caller that is not known at all gets the RPC code UNAUTHENTICATED without a code of this table.",
		Fix:  "Ask an administrator or the owner for the right, or use a token with a wider scope. For a tool call, change the persona or the policy, or let the agent do it another way.",
	},
	{
		Code: ToolNotFound, Kinds: []Kind{Invalid, NotFound}, Title: "Tool not found",
		What: "The model called a tool that it was not given, or that its MCP server no longer offers.",
		Fix:  "Add the tool or the MCP server to the persona if the agent should have it. The model is told which tools it has and goes on.",
	},
	{
		Code: ToolFailed, Kinds: []Kind{Precondition}, Title: "Tool failed",
		What: "A tool was called and failed: a command could not be started or was killed for using too much memory, an MCP server returned an error, a subtask was cancelled. For a command that ran and ended with an exit status other than 0 it is AGENT_030. Where nobody knows what the call did the code is AGENT_017; for a time limit it is AGENT_006.",
		Fix:  "Read the step's output (`deckhand task steps TASK`). The model is told and may try another way.",
	},
	{
		Code: MaxIterations, Kinds: []Kind{Exhausted}, Title: "Iteration limit reached",
		What: "The task has made as many model turns as `limits.iterations` of its persona allows.",
		Fix:  "Go on from there with a higher limit (`deckhand task resume-from`), or raise `limits.iterations` in the persona or give a smaller goal and run it again.",
	},
	{
		Code: ExecutionTimeout, Kinds: []Kind{Deadline}, Title: "Time limit reached",
		What: "A command or an MCP call ran longer than its timeout, or a task worked longer than `limits.active_time` of its persona. Waiting for a person's reply is AGENT_007.",
		Fix:  "Raise the timeout or the limit, or split the work into smaller commands.",
	},
	{
		Code: InputTimeout, Kinds: []Kind{Deadline}, Title: "Question not answered in time",
		What: "An agent asked a person a question and nobody replied before it expired. For a tool call that waits for an approval the code is AGENT_022.",
		Fix:  "Reply sooner, give the question a longer timeout or a default, or tell the agent the answer in a message and retry the task.",
	},
	{
		Code: CheckpointNotFound, Kinds: []Kind{NotFound, Aborted}, Title: "Checkpoint not found",
		What: "The task has no checkpoint of that number, or it was deleted when its retention ended.",
		Fix:  "Name one that exists: `deckhand task checkpoints TASK`.",
	},
	{
		Code: ResumeFailed, Kinds: []Kind{Precondition, Internal}, Title: "Task cannot be resumed",
		What: "The stored state of the task or the snapshot of its workspace is missing, incomplete or cannot be read.",
		Fix:  "Go on from another checkpoint, or with the workspace as it is (`deckhand task resume-from TASK --workspace keep`), or run the task again from the start (`deckhand task retry TASK`).",
	},
	{
		Code: BudgetLimit, Kinds: []Kind{Exhausted}, Title: "Budget or limit reached",
		What: "A model call or a subtask would exceed a budget in money, tokens or calls, or the number, depth or rounds of subtasks; the questions of a task have more attached than is kept; a run has changed more files, or a larger one, than its limits allow; a quota is used up; or the credit at the model provider is spent. Calls per second or per minute are AGENT_011.",
		Fix:  "Raise the budget or the limit that the message names, or add credit at the provider, then resume the task.",
	},
	{
		Code: RateLimited, Kinds: []Kind{Exhausted}, Title: "Rate limited",
		What: "Too many requests, streams or logins at once or in a period, at the hub, at a node or at a provider. What stays refused until somebody raises a budget is AGENT_010.",
		Fix:  "Wait as long as the header `Retry-After` says, where there is one, and try again. Raise the limit if this happens in normal use.", Retry: true,
	},
	{
		Code: InvalidParameters, Kinds: []Kind{Invalid, Precondition}, Title: "Invalid arguments",
		What: "The arguments of a tool call or the fields of an RPC are not valid: missing, unknown, of the wrong type or out of range. For a persona or a trigger the code is AGENT_001.",
		Fix:  "Correct the field that the message names and call again. A model is told and corrects its call.",
	},
	{
		Code: ContextTooLarge, Kinds: []Kind{Invalid}, Title: "Context too large",
		What: "The transcript of the task does not fit into the model's context window, or the request is over 32 MiB.",
		Fix:  "Give the agent a smaller goal, have its commands print less, or use a model with a larger context window.",
	},
	{
		Code: ModelUnavailable, Kinds: []Kind{Unavailable, Invalid, Precondition}, Title: "Model unavailable",
		What: "No model of the persona could be used: the provider cannot be reached, is overloaded, does not know the model, refuses the request or its content, or cuts off its answers. A key that the provider refuses is AGENT_020; a provider without a key is AGENT_025.",
		Fix:  "Read the message: wait if the provider is down or overloaded, otherwise correct the model's name or `max_tokens` in the persona, change what it is asked, or name a fallback model.", Retry: true,
	},
	{
		Code: SandboxViolation, Kinds: []Kind{Denied}, Title: "Path outside the workspace",
		What: "A path leads out of the workspace, or a persona asks for a folder of the machine that its operator does not show.",
		Fix:  "Use a path below the workspace, or have the node's operator add the folder to `show-paths` in `node.yaml`.",
	},
	{
		Code: EgressDenied, Kinds: []Kind{Denied}, Title: "Connection refused by egress rules",
		What: "A command tried to connect to an address that the egress rules of the persona do not allow.",
		Fix:  "Add the host and port to the persona's egress rules if the agent should reach them.",
	},
	{
		Code: OutcomeUnknown, Kinds: []Kind{Aborted}, Title: "Outcome unknown",
		What: "A call was started and nobody knows whether it took effect, for example because the machine rebooted under it. It is not repeated by itself.",
		Fix:  "Look at what the call changes, then settle the item in the inbox: retry it, skip it, or say that it succeeded or failed.",
	},
	{
		Code: NodeUnavailable, Kinds: []Kind{Unavailable, Precondition}, Title: "Node unavailable",
		What: "The node is not connected to a hub, the link broke during the call, or the node is being drained or runs too old a version. A node that somebody has locked is AGENT_019.",
		Fix:  "Try again when the node is connected (`deckhand node list`). Otherwise start or update `deckhand-node` there, end the drain, or use another node.", Retry: true,
	},
	{
		Code: NodeLocked, Kinds: []Kind{Precondition}, Title: "Node locked",
		What: "Somebody else holds the lock of the node.",
		Fix:  "Wait until the lock is released or expires, or ask its holder, whom the message names.", Retry: true,
	},
	{
		Code: CredentialInvalid, Kinds: []Kind{Precondition, Invalid}, Title: "Provider credential not valid",
		What: "A model provider or a web search engine refuses the stored key or login, or the key cannot be used.",
		Fix:  "Connect the provider again with a valid key or a new login: `deckhand provider connect NAME`.",
	},
	{
		Code: Stuck, Kinds: []Kind{Precondition}, Title: "Agent is stuck",
		What: "The agent repeated the same calls or made no progress, and was paused.",
		Fix:  "Send it a message that says what to do otherwise and resume it, or cancel the task.",
	},
	{
		Code: ApprovalExpired, Kinds: []Kind{Precondition}, Title: "Approval expired",
		What: "Nobody approved a tool call in time, or an item of the inbox was answered after its end. For a question the code is AGENT_007.",
		Fix:  "See what became of the task (`deckhand task show TASK`); run it again if it ended, and answer in time.",
	},
	{
		Code: CircularDelegation, Kinds: []Kind{Denied, Precondition}, Title: "Circular delegation",
		What: "A subtask or handoff would give work to an agent that is already in the chain of tasks above, or the chain is too long.",
		Fix:  "Let the agent do the work itself or name another agent; raise `agents.rounds` in the persona if agents should hand work back and forth.",
	},
	{
		Code: UnpricedModel, Kinds: []Kind{Precondition}, Title: "Model has no price",
		What: "The cost of a model call cannot be counted against a budget, because the hub knows no price of the model.",
		Fix:  "Set one: `deckhand provider price PROVIDER MODEL --input USD --output USD`; 0 for a model of your own. Or use another model.",
	},
	{
		Code: NoCredentials, Kinds: []Kind{Precondition}, Title: "Provider not connected",
		What: "No key or login is stored for the model provider or web search engine. One that is stored and refused is AGENT_020.",
		Fix:  "Connect it: `deckhand provider connect NAME`.",
	},
	{
		Code: FileConflict, Kinds: []Kind{Aborted, Precondition}, Title: "File changed meanwhile",
		What: "A file is not as the caller last saw it: it changed during a transfer or since a preview, or a copy would overwrite somebody's changes.",
		Fix:  "Read the file or the preview again and merge, copy into another folder, or overwrite on purpose.",
	},
	{
		Code: Killed, Kinds: []Kind{Precondition}, Title: "Killed or held",
		What: "A command or task was killed, or the agent, the trigger, the node or the organisation is on hold and starts nothing new.",
		Fix:  "Read who killed or held it and why. Release the hold, then run the task again.",
	},
	{
		Code: GivenUp, Kinds: []Kind{Precondition}, Title: "Goal not reached",
		What: "The agent ended its run and says that the goal cannot be reached, or it answered nothing twice in a row.",
		Fix:  "Read its summary. Change the goal or what the agent can use, then run the task again.",
	},
	{
		Code: PartlyDone, Kinds: []Kind{Precondition}, Title: "Partly done",
		What: "The agent ended its run with a part of the goal reached. Its files and its summary are kept; the run is not tried again, and does not count as a failure of the agent.",
		Fix:  "Read in the summary what is left, and give that as a new goal, or go on from the last checkpoint (`deckhand task resume-from TASK`).",
	},
	{
		Code: CommandFailed, Kinds: []Kind{Precondition}, Title: "Command failed",
		What: "A command ran and ended with an exit status other than 0, or by a signal. The status is in the step's outcome. To the agent it is a result like any other.",
		Fix:  "Read the step's output (`deckhand task steps TASK`). Some programs report an ordinary result in this way, for example grep, which exits with 1 if it finds nothing.",
	},
	{
		Code: ImageUnavailable, Kinds: []Kind{Precondition, NotFound, Denied, Exhausted, Unavailable, Invalid}, Title: "Image unavailable",
		What: "The container image that the jail is made from cannot be used: it does not exist, is not allowed, is not signed as required, is for another kind of machine, is damaged, or its registry or disk space is missing.",
		Fix:  "Do what the message says: it names the image and the cause. `deckhand node image pull NODE IMAGE` tries it without a task.", Retry: true,
	},
	{
		Code: SetupFailed, Kinds: []Kind{Precondition}, Title: "Image setup failed",
		What: "A command of jail.setup, which prepares the agent's container image on a node, failed. Nothing of the setup was kept.",
		Fix:  "The message names the command and shows the end of its output. Change jail.setup or jail.setup_egress, and try it with `deckhand agent prepare NAME`.", Retry: true,
	},
	{
		Code: CredentialRefused, Kinds: []Kind{Precondition, Denied, NotFound, Exhausted, Unavailable, Invalid}, Title: "Credential cannot be used",
		What: "A request was not sent with a credential of the organisation: it was deleted or has expired, the agent may not use it, the request is not one that it is for, or its server issues no token.",
		Fix:  "Do what the message says. `deckhand credential show NAME` shows what it is for, and `deckhand credential test NAME` tries it.",
	},
	{
		Code: WatchSlow, Kinds: []Kind{Aborted}, Title: "Watch too slow",
		What: "A watch ended because its caller did not read the events fast enough. No event is lost.",
		Fix:  "Watch again from the last cursor. The SDK and the console do so by themselves.", Retry: true,
	},
	{
		Code: CursorExpired, Kinds: []Kind{Precondition}, Title: "Cursor expired",
		What: "A watch asked to go on from a cursor, and events after it have been deleted because their retention ended.",
		Fix:  "Watch without the cursor for the events that are left. Tasks, steps and results are still there.",
	},
	{
		Code: IdempotencyKeyReused, Kinds: []Kind{Invalid}, Title: "Idempotency key used for another request",
		What: "The header `Idempotency-Key` has a key that this token has sent within the last 24 hours with another request to the same path.",
		Fix:  "Send a new key with each new request, and the same key only with an exact repetition.",
	},
	{
		Code: IdempotencyInProgress, Kinds: []Kind{Aborted}, Title: "Request with this key in progress",
		What: "An earlier request with the same `Idempotency-Key` has not ended yet.",
		Fix:  "Repeat it after the time of the header `Retry-After`: it returns the response of the first request.", Retry: true,
	},
	{
		Code: IdempotencyUnknown, Kinds: []Kind{Aborted}, Title: "Outcome of the first request unknown",
		What: "An earlier request with the same `Idempotency-Key` changed something and broke off before its response was stored, for example because the hub died.",
		Fix:  "Look whether it took effect. If not, send the request again with a new key.",
	},
	{
		Code: LeaseEnded, Kinds: []Kind{Precondition}, Title: "Lease ended",
		What: "A worker wrote to a task that it no longer holds, for example after a long interruption.",
		Fix:  "The worker stops by itself; another attempt goes on with the task.", Internal: true,
	},
	{
		Code: HubUnavailable, Kinds: []Kind{Unavailable}, Title: "Hub unavailable",
		What: "The hub itself could not relay a model call; neither the provider nor the request is at fault.",
		Fix:  "The worker tries again. If this lasts, read the hub's log.", Retry: true, Internal: true,
	},
}
