// Package tool is the registry of the tools that agents may call. A Tool has the record
// that the model gets and the function that runs it; Registry finds one by name. Anything
// with effects outside the conversation runs in the hub or on a node, after the hub has
// decided it. A failed call is a Result; an error means that the outcome is not known
// yet.
package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/model/websearch"
	"github.com/deckhand-sh/deckhand/hub/tool/forge"
	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Call is a granted tool call.
type Call struct {
	// StepID names the call for ever, and TaskID the task that it belongs to.
	StepID, TaskID string
	// ExecID identifies this run of it: a node runs each at most once.
	ExecID    string
	Arguments map[string]any
	// Jail is the specification of the task's jail; nil for tools that need none.
	Jail *nodev1.JailSpec
	// OfflineGrace is how long a command may keep running while its node is cut off; 0
	// for the node's own default.
	OfflineGrace time.Duration
	// OutputLimit is after how many bytes of output a command is stopped; 0 for
	// the node's own limit.
	OutputLimit int64
	// Traceparent is the trace context of a command, empty for none; the same for every
	// request of the call.
	Traceparent string
	// Env are variables that commands of the agent get.
	Env []string
	// Ran, if set, is called with a command's end as its node reports it.
	Ran  func(ctx context.Context, e *nodev1.Exec)
	Node machine.Link
	// SyncRequest copies files to or from the agent's jail on another node.
	Sync func(ctx context.Context, s SyncRequest) (SyncResult, error)
	// Restore brings the workspace back to a checkpoint that the agent has named.
	Restore func(ctx context.Context, name string) (Restored, error)
	// Live reports whether the call is still wanted.
	Live func(ctx context.Context) bool
	// Answer is a person's, for tools that ask.
	Answer Answer
	// Memory is what the agent remembers beyond the task, for tools that do.
	Memory Memory
	// Past searches the steps that the task has made.
	Past StepSearcher
	// Knowledge are the documents that the person for whom the task runs sees.
	Knowledge KnowledgeBase
	// Patterns looks for what earlier runs have taught.
	Patterns PatternFinder
	// Given is the task that the call created, for tools that create tasks.
	Given ChildTask
	// Child returns a subtask of the call's task, and whether it has ended; an error of
	// kind Invalid for an id that no task has.
	Child func(ctx context.Context, taskID string) (child ChildTask, ended bool, err error)
	// MCP is the data of the server, for tools of MCP servers.
	MCP *MCP
	// StartedAt is when the call began, for tools that wait.
	StartedAt time.Time
	// WaitUntil is until when a call of wait has waited without a worker; zero if it has
	// not, and WaitSince is from when.
	WaitUntil, WaitSince time.Time
	// Jobs are the background commands of the task, and JobTime is how long one may run.
	Jobs    Jobs
	JobTime time.Duration
	// Told returns which files of instructions the agent was told in this task, as paths in
	// the workspace; nil for a call that is told none.
	Told func(ctx context.Context) ([]string, error)
	// Engine returns the search engine to ask.
	Engine func(ctx context.Context) (websearch.Engine, error)
	// Forge returns how the service that has a repository is reached, with one of the
	// persona's credentials: that with a name, or if that is empty the only one for it.
	Forge func(ctx context.Context, repository, credential string) (forge.Access, error)
	// Browser is what calls of the browser need of the hub.
	Browser Browser
	// Messages sends to people and other systems.
	Messages Messenger
	// Earlier is how it went if this run of the step sent something before; nil if not.
	Earlier *Delivery
	// Machines works with machines themselves, for tools that do.
	Machines Machines
	// Lock is the lock of the machine under which a command of the call runs; nil if the task
	// held none when the call began.
	Lock *MachineLock
	// lookEvery is how long one question for a command's end waits; 0 for the usual.
	lookEvery time.Duration
	// Approved is the state that a person approved the call for, for tools that inspect; empty
	// if none was asked.
	Approved string
}

// Image is a picture that a call answered.
type Image struct {
	// MediaType is image/png, image/jpeg, image/gif or image/webp.
	MediaType string
	Data      []byte
	// ForPeople reports that the model does not get it, and Mark is where in it the element is
	// that was acted on: left, top, width and height in pixels; nil for none.
	ForPeople bool
	Mark      []int32
}

// Result is how a call ended.
type Result struct {
	// Observation is the text that the model gets.
	Observation string
	// Outcome is the machine-readable end; its keys are the tool's own.
	Outcome map[string]any
	// Code is set when the call failed.
	Code   fault.Code
	Failed bool
	// Unknown reports that it cannot be found out whether the call took effect.
	Unknown bool
	// OutOfMemory reports that the call was killed because its jail had too little
	// memory.
	OutOfMemory bool
	// NotStarted reports that the call took no effect and that this run of it never will:
	// it may be run again under another ExecID.
	NotStarted bool
	LogBytes   int64
	// Images are for models that take them; at most 4, of 2 MiB each.
	Images []Image
	// Workspace is what it changed there; nil for tools that change nothing.
	Workspace *nodev1.WorkspaceChange
	// Machine is what it changed in folders of a machine, with absolute paths; nil for
	// nothing.
	Machine *nodev1.WorkspaceChange
	// Refused is what the node's egress refused to it.
	Refused []*nodev1.EgressUse_Refusal
	// WorkspaceNode is the node that Workspace is on; empty for the step's own.
	WorkspaceNode string
	// Started is the job that the call's command became; nil for none.
	Started *StartedJob
	// Progress is how far the call has read or written a job; nil for none.
	Progress *JobProgress
	// Browser is the state of the browser after the call; nil if that has not changed.
	Browser *BrowserSession
	// UsedTarget is what became of the target of a call of the browser; nil for nothing that is to
	// be remembered.
	UsedTarget *browserlink.UsedTarget
}

// Tool is a record of the registry.
type Tool struct {
	Name        string
	Description string
	// Kind is what the tool is about.
	Kind Kind
	// Returns says who may have written what its results have.
	Returns  Origin
	Category deckhandv1.ToolCategory
	Place    deckhandv1.ToolPlace
	// Idempotent: running it again has the same effect as running it once.
	Idempotent bool
	// ReadOnly: it changes nothing.
	ReadOnly bool
	// Reversible: everything that it changes can be restored.
	Reversible bool
	// Irreversible describes what cannot be restored, for a tool that is neither
	// reversible nor read-only.
	Irreversible string
	// Acts: it acts on a page as a person would, so that a call may buy or delete although its
	// category is safe. In supervised mode it asks as moderate tools do, and rules can name it.
	Acts bool
	// Leaves reports whether a call has an effect outside of the workspace; nil where
	// none has. Commands and servers are kept in by the jail and its egress.
	Leaves func(arguments map[string]any) bool
	// Asks: it asks a person, and runs when the answer is there. asksWhen reports which
	// calls of a tool without Asks do; nil for none.
	Asks     bool
	asksWhen func(arguments map[string]any) bool
	// wider returns why a call needs an approval in every mode unless a policy allows it, and
	// empty for other calls; nil where none does.
	wider func(arguments map[string]any) string
	// Spawns: it has another task made, and runs when that one has ended.
	Spawns bool
	// Waits: a long call has no worker while it waits.
	Waits bool
	// Ends: it ends the run.
	Ends bool
	// AdminDecides is why only an administrator decides each call, whatever the mode, the
	// persona and the policies say; empty for a tool of which that is not so.
	AdminDecides string
	// Exact: a call does exactly what Call.Approved says, or fails. It is not inspected again
	// once it is approved.
	Exact bool
	// Machine: a call is a command on the machine whose lock the task holds, and not in its
	// jail.
	Machine bool
	Timeout time.Duration
	// Expected is how long a call usually takes, without the wait for an approval; 0 for a
	// moment.
	Expected time.Duration
	// Retryable: a call that failed may succeed if it is made again as it is, and that does
	// no harm. Only idempotent tools are.
	Retryable bool

	// touches returns the paths of the files that a call reads or changes; nil for a tool
	// that is no tool for files.
	touches func(arguments map[string]any) []string
	// stores reports that all that it does is stored in the transaction of its outcome.
	stores bool
	// runs reports that it runs a command on a node, under the step's id.
	runs bool
	// machines reports that it works with machines: see Call.Machines.
	machines bool
	// underLock reports that it works on files of the machine whose lock the task holds.
	underLock bool

	schema string // JSON Schema of the arguments, draft 2020-12
	// run runs the call and returns its end. It may be called again for the same step,
	// after a crash or when its context ended, and then re-attaches. An error means that
	// the end is not known yet; failures are Results.
	run func(ctx context.Context, c Call) (Result, error)
	// preview describes to a person what a call would do; nil shows its arguments.
	preview func(arguments map[string]any) string
	// previewBytes bounds a preview; 0 for the usual.
	previewBytes int
	// inspect returns what a call would do now, for its approval; nil for tools whose
	// arguments say all of it.
	inspect func(ctx context.Context, c Call) (Inspection, error)
}

// Stores reports whether all that the tool does is stored in the transaction of its outcome.
func (t *Tool) Stores() bool { return t.stores }

// Sends reports whether the tool sends to people or other systems by Call.Messages.
func (t *Tool) Sends() bool {
	return t.Place == deckhandv1.ToolPlace_TOOL_PLACE_HUB && t.Kind == KindCommunication && !t.Asks
}

// Runs reports whether the tool runs a command on a node, under the step's id.
func (t *Tool) Runs() bool { return t.runs }

// Machines reports whether the tool works with machines, by Call.Machines.
func (t *Tool) Machines() bool { return t.machines }

// UnderLock reports whether a call works on the machine whose lock the task holds.
func (t *Tool) UnderLock() bool { return t.Machine || t.underLock }

// Run runs a granted call, or re-attaches to it.
func (t *Tool) Run(ctx context.Context, c Call) (Result, error) {
	var use *nodev1.EgressUse
	ran := c.Ran
	c.Ran = func(ctx context.Context, e *nodev1.Exec) {
		use = e.GetEgress()
		if ran != nil {
			ran(ctx, e)
		}
	}
	r, err := t.run(ctx, c)
	if err != nil {
		return r, err
	}
	if t.touches != nil && c.Told != nil && !r.Failed && !r.Unknown {
		r = withInstructions(ctx, c, r, t.touches(c.Arguments))
	}
	return withEgress(r, use), nil
}

// Proto returns the record as the API shows it.
func (t *Tool) Proto() (*deckhandv1.Tool, error) {
	schema := &structpb.Struct{}
	if err := json.Unmarshal([]byte(t.schema), schema); err != nil {
		return nil, fmt.Errorf("schema of tool %s: %w", t.Name, err)
	}
	return t.proto(schema), nil
}

func (t *Tool) proto(schema *structpb.Struct) *deckhandv1.Tool {
	return &deckhandv1.Tool{
		Name: t.Name, Description: t.Description, InputSchema: schema, Category: t.Category, Place: t.Place,
		Idempotent: t.Idempotent, ReadOnly: t.ReadOnly, Reversible: t.Reversible, Irreversible: t.Irreversible,
		Timeout: durationpb.New(t.Timeout), Spawns: t.Spawns, Ends: t.Ends,
		Kind: t.Kind, ExpectedDuration: durationpb.New(t.Expected), LeastRole: t.LeastRole(), Retryable: t.Retryable, Confirmation: t.Confirmation(),
	}
}

// Registry is the tools that there are.
type Registry struct {
	tools  map[string]*Tool
	protos map[string]*deckhandv1.Tool
}

// NewRegistry returns the tools of this release.
func NewRegistry() (*Registry, error) {
	r := &Registry{tools: map[string]*Tool{}, protos: map[string]*deckhandv1.Tool{}}
	for _, t := range slices.Concat(shellTools(), jobTools(), terminalTools(), []*Tool{waitTool()}, skillTools(), httpTools(), browserTools(), webSearchTools(), pullRequestTools(), gitPushTools(), fileTools(), fileChangeTools(), []*Tool{patchTool()}, syncTools(), workTools(), recallTools(), knowledgeTools(), []*Tool{patternTool()}, checkpointTools(), searchTools(), askTools(), memoryTools(), communicationTools(), agentTools(), machineTools(), manyTools(), journalTools()) {
		record, err := t.Proto()
		if err != nil {
			return nil, err
		}
		r.tools[t.Name], r.protos[t.Name] = t, record
	}
	return r, nil
}

// Get returns a tool by name, or nil. For a tool of an MCP server it returns the record
// that all of them share, for any name that they may have.
func (r *Registry) Get(name string) *Tool {
	if t := r.tools[name]; t != nil || !IsMCP(name) {
		return t
	}
	return mcpTool(name)
}

// Names returns all tools' names in order.
func (r *Registry) Names() []string {
	names := make([]string, 0, len(r.tools))
	for name := range r.tools {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Listable returns the names of the tools that a persona may list, in order.
func (r *Registry) Listable() []string {
	return slices.DeleteFunc(r.Names(), func(name string) bool { return slices.Contains(toFind, name) })
}

// Irreversible returns the names of the tools whose effects cannot be undone completely.
func (r *Registry) Irreversible() (names []string) {
	for _, name := range r.Names() {
		if r.tools[name].Irreversible != "" {
			names = append(names, name)
		}
	}
	return names
}

// always are the tools that every agent has: without them a run cannot end.
var always = []string{toolname.CompleteTask}

// comeWith are the tools that a persona need not list, by the one that they come with: that
// starts what they are used on.
var comeWith = map[string][]string{
	toolname.BrowserNavigate: {toolname.BrowserDialog, toolname.BrowserSnapshot, toolname.BrowserTabs, toolname.BrowserWait},
	toolname.Checkpoint:      {toolname.CheckpointRestore},
	toolname.CreateSubtask:   {toolname.Wait},
	toolname.Delegate:        {toolname.Wait},
	toolname.FileEdit:        {toolname.ApplyPatch},
	toolname.FileRead:        {toolname.FileView},
	toolname.NodeLock:        {toolname.NodeUnlock},
	toolname.ShellExec:       {toolname.JobInput, toolname.JobKill, toolname.JobList, toolname.JobOutput, toolname.Wait},
	toolname.TerminalOpen:    {toolname.JobList, toolname.TerminalClose, toolname.TerminalRead, toolname.TerminalWrite, toolname.Wait},
}

// Allowed reports whether a persona may use a tool of this release.
func Allowed(p *persona.Persona, name string) bool {
	comes := func(listed string) bool { return slices.Contains(comeWith[listed], name) }
	return slices.Contains(p.Tools, name) || slices.Contains(always, name) || slices.ContainsFunc(p.Tools, comes) || slices.Contains(toFind, name) && len(p.MCP) > 0
}

// For returns the records of the tools that a persona lists, in order. Those of
// its MCP servers are known when its task starts.
func (r *Registry) For(p *persona.Persona) []*deckhandv1.Tool {
	var out []*deckhandv1.Tool
	for _, name := range r.Names() {
		if slices.Contains(toFind, name) || !Allowed(p, name) {
			continue
		}
		record := r.protos[name]
		if r.tools[name].ApprovalReason(p) != "" {
			record = proto.CloneOf(record)
			record.Description += asksFirst
		}
		out = append(out, record)
	}
	return out
}

// asksFirst ends the description of a tool whose calls need an approval.
const asksFirst = " A person is asked before each call, which may take long or be refused."

// ApprovalReason returns why each call of the tool needs an approval, or "". Of the
// policy's rules it knows nothing.
func (t *Tool) ApprovalReason(p *persona.Persona) string {
	category := CategoryName(t.Category)
	switch {
	case t.AdminDecides != "":
		return t.AdminDecides
	case slices.Contains(p.Approvals.Tools, t.Name):
		return fmt.Sprintf("the persona's approvals.tools lists %s", t.Name)
	case t.Category >= deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS:
		return fmt.Sprintf("%s is a dangerous tool, and no policy rule allows it", t.Name)
	case t.Place == deckhandv1.ToolPlace_TOOL_PLACE_WORKER:
		return "" // it only touches the conversation
	case slices.Contains(p.Approvals.Categories, category):
		return fmt.Sprintf("the persona's approvals.categories lists %s", category)
	case p.Mode == persona.Supervised && t.Category > deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE:
		return fmt.Sprintf("the persona is supervised, and %s is a %s tool", t.Name, category)
	case p.Mode == persona.Supervised && t.Acts:
		return fmt.Sprintf("the persona is supervised, and %s acts on a page", t.Name)
	}
	return ""
}

// Jailed reports whether a persona may do anything on a node.
func (r *Registry) Jailed(p *persona.Persona) bool {
	if len(p.MCP) > 0 {
		return true
	}
	for _, t := range r.For(p) {
		if t.GetPlace() == deckhandv1.ToolPlace_TOOL_PLACE_NODE {
			return true
		}
	}
	return false
}

// Record returns a tool's record by name, or nil.
func (r *Registry) Record(name string) *deckhandv1.Tool { return r.protos[name] }

// failure returns a node's refusal as a result that the model can act on. An error that
// is not about the call itself (the node or the link is gone) stays an error.
func failure(err error) (Result, error) {
	e := fault.As(fault.FromGRPC(err))
	switch e.Kind {
	case fault.Unavailable, fault.Canceled, fault.Deadline, fault.Internal, fault.Unauthenticated:
		return Result{}, e
	}
	return refusal(e), nil
}

// AsksPerson reports whether a call asks a person, and runs when the answer is there.
func (t *Tool) AsksPerson(arguments map[string]any) bool {
	return t.Asks || t.asksWhen != nil && t.asksWhen(arguments)
}

// Wider returns why a call needs an approval in every mode unless a policy allows it; empty for
// other calls.
func (t *Tool) Wider(arguments map[string]any) string {
	if t.wider == nil {
		return ""
	}
	return t.wider(arguments)
}

// Refusal returns an error as the result of a call that did nothing.
func Refusal(e *fault.Error) Result { return refusal(e) }

// refusal returns an error as a result that the model can act on.
func refusal(e *fault.Error) Result {
	code := e.Code
	if code == "" {
		code = fault.ToolFailed
	}
	return Result{Failed: true, Code: code, Observation: fmt.Sprintf("error %s: %s", code, e.Explanation())}
}

// inJail runs fn; when the node has no running jail for it, the jail is made
// and fn runs once more.
func inJail(ctx context.Context, c Call, fn func() error) error {
	err := fn()
	e := fault.As(fault.FromGRPC(err))
	if e == nil || (e.Kind != fault.NotFound && e.Kind != fault.Precondition) || e.ObjectID != c.Jail.GetJailId() {
		return err
	}
	if _, err := c.Node.Jails().EnsureJail(ctx, &nodev1.EnsureJailRequest{Spec: c.Jail, HostMode: c.Jail.GetRootfs() == nodelink.RootMachine}); err != nil {
		return fmt.Errorf("make jail: %w", err)
	}
	err = fn()
	if e := fault.As(fault.FromGRPC(err)); e != nil && e.Kind == fault.Precondition && e.ObjectID == c.Jail.GetJailId() {
		// The jail is frozen and takes no commands, because its task waits for a person.
		// That is not about the call.
		return fault.New(fault.Unavailable, "%s", e.Message).WithObject(e.ObjectID).WithCause(err)
	}
	return err
}

func text(args map[string]any, key string) string {
	s, _ := args[key].(string)
	return s
}

func number(args map[string]any, key string) int64 {
	n, _ := args[key].(float64)
	return int64(n)
}

func flag(args map[string]any, key string) bool {
	b, _ := args[key].(bool)
	return b
}
