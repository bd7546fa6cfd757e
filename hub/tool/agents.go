package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The tools that give work away.
const (
	CreateSubtask = toolname.CreateSubtask
	Delegate      = toolname.Delegate
	Handoff       = toolname.HandoffToAgent
)

// Giving are their names.
var Giving = []string{CreateSubtask, Delegate, Handoff}

// SubtaskSpec is the work that a call of one of them requests.
type SubtaskSpec struct {
	// Tool is its name.
	Tool string
	// Agent is who is to do it, by name; empty for the agent itself.
	Agent                string
	Title, Goal, Context string
	// Background reports that the agent goes on with its own work meanwhile.
	Background bool
	// Key is the idempotency key of the task; empty for none. The step names the task of a call.
	Key string
	// Manifest is what is handed over; nil for a subtask.
	Manifest *Manifest
}

// Manifest is what an agent hands over with its work. It is all that the target
// knows of what was before.
type Manifest struct {
	HandoffID   string    `json:"handoff_id"`
	SourceAgent string    `json:"source_agent"`
	TargetAgent string    `json:"target_agent"`
	Status      string    `json:"status"`
	Artifacts   Artifacts `json:"artifacts"`
	Summary     string    `json:"summary_for_target"`
}

// Artifacts are what a run leaves in its workspace.
type Artifacts struct {
	WorkingDir   string   `json:"working_dir,omitempty"`
	FilesChanged []string `json:"files_changed,omitempty"`
	// FilesShared are read-only for the target, and SharedDir is where it finds them; the
	// hub sets it.
	FilesShared []string `json:"files_shared,omitempty"`
	SharedDir   string   `json:"shared_dir,omitempty"`
	Entrypoint  string   `json:"cli_entrypoint,omitempty"`
}

// WorkOf reads the work in a call's arguments, which fit the tool's schema.
func WorkOf(name string, arguments map[string]any) (SubtaskSpec, error) {
	w := SubtaskSpec{
		Tool: name, Agent: text(arguments, "agent"), Title: text(arguments, "title"),
		Goal: strings.TrimSpace(text(arguments, "goal")), Context: text(arguments, "context"),
		Background: name != Handoff && flag(arguments, "background"),
	}
	if name != Handoff {
		if w.Goal == "" {
			return w, fault.New(fault.Invalid, "goal is empty").WithFix("say what is to be done")
		}
		return w, nil
	}
	data, err := json.Marshal(arguments)
	if err != nil {
		return w, fmt.Errorf("encode the manifest: %w", err)
	}
	w.Manifest = &Manifest{}
	if err := json.Unmarshal(data, w.Manifest); err != nil {
		return w, fault.New(fault.Invalid, "the manifest cannot be read: %v", err)
	}
	w.Agent, w.Goal = w.Manifest.TargetAgent, strings.TrimSpace(w.Manifest.Summary)
	if w.Goal == "" {
		return w, fault.New(fault.Invalid, "summary_for_target is empty").WithFix("say what was done and what is left to do")
	}
	return w, nil
}

// ChildTask is a task that a call created, as it ended; for a handoff, as it begins.
type ChildTask struct {
	TaskID, Agent, State string
	// Reason is the reason of its state, and Code and Message describe its failure.
	Reason, Code, Message string
	Summary               string
	Iterations            int32
	// CostMicros includes the tasks below it.
	CostMicros int64
}

const giveTimeout = 30 * 24 * time.Hour

func agentTools() []*Tool {
	const (
		moderate = deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE
		hub      = deckhandv1.ToolPlace_TOOL_PLACE_HUB
		done     = "what the other task does"
		work     = `"title":{"type":"string","minLength":1,"maxLength":200},
			"goal":{"type":"string","minLength":1,"maxLength":10000,"description":"What to achieve, and how to tell that it is achieved. The other task knows only this and the context: give names, paths and limits"},
			"context":{"type":"string","maxLength":32000,"description":"Further information: findings so far, text of files"},
			"background":{"type":"boolean","description":"Return at once with the task's id, and go on with your own work. Get the result with wait. The other task is cancelled when yours ends"}`
	)
	return []*Tool{
		{
			Name: CreateSubtask,
			Description: "Run a part of your work as a task of its own, with your own persona, and wait for its result. " +
				"Use it for parts that need much reading of which you only need the result. Request independent parts in one turn: they run in parallel. " +
				"Do not use it for a few calls that you can make yourself. " +
				`Example: {"goal": "List every caller of parse() in src/ that ignores its error. Return file:line for each."}.`,
			// One call makes one task: the step names it.
			Kind: KindWork, Expected: 5 * time.Minute,
			Category: moderate, Place: hub, Idempotent: true, Spawns: true, Irreversible: done, Timeout: giveTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["goal"],"properties":{` + work + `}}`,
			run:    runSubtask,
		},
		{
			Name: Delegate,
			Description: "Give a part of your work to another agent and wait for its result. Request independent parts in one turn: they run in parallel. " +
				"To give the whole rest of your work away, use handoff_to_agent. " +
				`Example: {"agent": "log-triage", "goal": "Find out why checkout failed between 10:00 and 10:20 UTC. Return the first error with its time."}.`,
			Kind: KindWork, Expected: 5 * time.Minute,
			Category: moderate, Place: hub, Idempotent: true, Spawns: true, Irreversible: done, Timeout: giveTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["agent","goal"],"properties":{
				"agent":{"type":"string","minLength":1,"maxLength":63,"description":"The other agent's name"},` + work + `}}`,
			run: runSubtask,
		},
		{
			Name: Handoff,
			Description: "Hand the rest of your work over to another agent. This ends your run, so it is the last thing you do. " +
				"The other agent knows only what you pass here. To get a result back, use delegate. " +
				`Example: {"target_agent": "deployer", "status": "done", "artifacts": {"files_shared": ["dist/app.tar.gz"]}, "summary_for_target": "The build passed all tests. Deploy dist/app.tar.gz to staging."}.`,
			Kind:     KindWork,
			Category: moderate, Place: hub, Idempotent: true, Ends: true, Irreversible: done, Timeout: workTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["target_agent","status","artifacts","summary_for_target"],"properties":{
				"target_agent":{"type":"string","minLength":1,"maxLength":63,"description":"The other agent's name"},
				"status":{"enum":["done","partial","blocked"],"description":"How far you got"},
				"artifacts":{"type":"object","additionalProperties":false,"properties":{
					"working_dir":{"type":"string","maxLength":4096,"description":"The folder of your workspace that this is about"},
					"files_changed":{"type":"array","maxItems":1000,"items":{"type":"string","minLength":1,"maxLength":4096},
						"description":"Files and folders that the other agent gets a copy of, to change"},
					"files_shared":{"type":"array","maxItems":1000,"items":{"type":"string","minLength":1,"maxLength":4096},
						"description":"Files and folders that the other agent gets to read only, as they are now"},
					"cli_entrypoint":{"type":"string","maxLength":2000,"description":"The command that runs or tests the result"}}},
				"summary_for_target":{"type":"string","minLength":1,"maxLength":9000,"description":"What was done, what you found, and what the other agent is to do now"}}}`,
			run: func(_ context.Context, c Call) (Result, error) {
				return Result{
					Observation: fmt.Sprintf("handed over to %s as task %s", c.Given.Agent, c.Given.TaskID),
					Outcome:     map[string]any{"task_id": c.Given.TaskID, "agent": c.Given.Agent},
				}, nil
			},
		},
	}
}

// WithTargets returns the record of a tool that gives work to other agents with the names
// that the persona allows, and what each is for; other records are returned as they are.
func WithTargets(record *deckhandv1.Tool, p *persona.Persona, about map[string]string) *deckhandv1.Tool {
	key, names := "agent", p.Agents.Delegate
	switch record.GetName() {
	case Delegate:
	case Handoff:
		key, names = "target_agent", p.Agents.Handoff
	default:
		return record
	}
	if len(names) == 0 {
		return record
	}
	record = proto.CloneOf(record)
	list, described := &structpb.ListValue{}, "One of:"
	for _, name := range names {
		list.Values = append(list.Values, structpb.NewStringValue(name))
		described += "\n- " + name
		if about[name] != "" {
			described += ": " + about[name]
		}
	}
	target := record.GetInputSchema().GetFields()["properties"].GetStructValue().GetFields()[key].GetStructValue().GetFields()
	target["enum"] = structpb.NewListValue(list)
	target["description"] = structpb.NewStringValue(described)
	return record
}

// runSubtask returns how the other task ended, or that it runs in the background.
func runSubtask(_ context.Context, c Call) (Result, error) {
	g := c.Given
	r := Result{Outcome: map[string]any{
		"task_id": g.TaskID, "agent": g.Agent, "state": g.State, "iterations": g.Iterations, "cost_micros": g.CostMicros,
	}}
	if flag(c.Arguments, "background") {
		r.Observation = fmt.Sprintf("task %[1]s of agent %[2]s was created. It runs beside you, or, where it shares your workspace, when you wait for it. Go on with your own work. "+
			`Get its result with wait {"seconds": 3600, "task": "%[1]s"} before you complete your task, which would cancel it.`, g.TaskID, g.Agent)
		return r, nil
	}
	r.Observation = g.ending()
	if g.State != "succeeded" {
		r.Failed, r.Code = true, g.code()
		r.Observation = fmt.Sprintf("error %s: %s", r.Code, r.Observation)
	}
	return r, nil
}

// code is why a task that has ended did not succeed.
func (g ChildTask) code() fault.Code { return cmp.Or(fault.Code(g.Code), fault.ToolFailed) }

// ending describes how a task has ended, with its summary.
func (g ChildTask) ending() string {
	partly := g.State == "failed" && g.code() == fault.PartlyDone
	how := "ended as " + g.State
	if partly {
		how = "is partly done"
	}
	said := fmt.Sprintf("task %s of agent %s %s after %d iterations, for %.4f USD", g.TaskID, g.Agent, how, g.Iterations, float64(g.CostMicros)/1e6)
	switch {
	case partly:
		return said + ". Its files are kept. Its summary, with what is left to do:\n" + g.Summary
	case g.State == "succeeded":
		return said + ". Its summary:\n" + g.Summary
	}
	said += ": " + g.Reason
	if g.Message != "" && !strings.Contains(g.Reason, g.Message) {
		said += "\n" + g.Message
	}
	if g.Summary != "" {
		said += "\nIts summary:\n" + g.Summary
	}
	return said
}
