// Package insight says what can be learned from runs: why one failed and what would mend it
// (Explain), which agent and model to run next (Recommend), and how agents and tools do over
// time (Report). It works by rules over the record and calls no model. It changes nothing:
// proposals are texts that a person applies.
package insight

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

// Class is what a failure lies at.
type Class string

// The classes.
const (
	Environment Class = "environment"
	Permission  Class = "permission"
	Model       Class = "model"
	Tool        Class = "tool"
	Plan        Class = "plan"
	Budget      Class = "budget"
	Provider    Class = "provider"
)

// Failure is why a run failed.
type Failure struct {
	Class Class
	Cause string
	// Step is the first that shows the cause; nil if no step does.
	Step *db.StepsToLearnRow
	// Evidence is what the step said.
	Evidence string
	// Signature is the same for similar failures.
	Signature string
	// Key is what of the environment or the permissions is missing, for a proposal: a host, a
	// program, or the tool.
	Key string
	// Host is what a rule of the persona's egress would allow; only where the node refused the
	// connection, never from what a command printed.
	Host string
}

// classOf are the error codes of tasks that say by themselves what a failure lies at.
var classOf = map[fault.Code]Class{
	fault.PermissionDenied: Permission, fault.SandboxViolation: Permission, fault.ApprovalExpired: Permission, fault.NodeLocked: Permission,
	fault.MaxIterations: Budget, fault.BudgetLimit: Budget, fault.ExecutionTimeout: Budget, fault.UnpricedModel: Budget,
	fault.RateLimited: Provider, fault.ModelUnavailable: Provider, fault.CredentialInvalid: Provider, fault.NoCredentials: Provider,
	fault.ContextTooLarge: Model, fault.InvalidParameters: Model, fault.ToolNotFound: Model, fault.TaskParsing: Model,
	fault.EgressDenied: Environment, fault.NodeUnavailable: Environment, fault.ImageUnavailable: Environment, fault.SetupFailed: Environment,
	fault.CredentialRefused: Environment, fault.Killed: Environment, fault.CheckpointNotFound: Environment, fault.ResumeFailed: Environment,
	fault.ToolFailed: Tool, fault.OutcomeUnknown: Tool, fault.FileConflict: Tool, fault.CommandFailed: Tool,
	fault.CircularDelegation: Plan, fault.Stuck: Plan, fault.PartlyDone: Plan, fault.GivenUp: Plan, fault.InputTimeout: Plan,
}

var (
	// missing finds the program that a command did not find.
	missing = regexp.MustCompile(`(?m)(?:^|[ :])([\w.+-]{1,40}): (?:command )?not found|exec: "([\w.+-]{1,40})": executable file not found`)
	// digits are left out of signatures, as are paths.
	digits = regexp.MustCompile(`[0-9a-f]{8,}|[0-9]+`)
)

// Analyse says why a run failed, by rules: the task's error code, and the first step that failed
// for what the run ended for.
func Analyse(t db.Task, steps []db.StepsToLearnRow) Failure {
	code := fault.Code(t.ErrorCode)
	f := Failure{Class: classOf[code], Cause: t.ErrorMessage}
	if f.Class == "" {
		f.Class = Tool
	}
	// A run that gave up, got stuck or ran out of turns did so for a reason that its steps show.
	if f.Class == Plan || code == fault.MaxIterations || code == fault.ToolFailed || code == fault.CommandFailed || code == "" {
		if cause, found := fromSteps(steps); found {
			cause.Cause = cause.Cause + ended(t)
			if f.Class == Budget {
				cause.Class = f.Class
			}
			f = cause
		}
	} else if step := firstWith(steps, code); step != nil {
		f.Step = step
	}
	if f.Cause == "" {
		f.Cause = "the run ended: " + t.Reason
	}
	if f.Step != nil && f.Evidence == "" {
		f.Evidence = evidence(*f.Step)
	}
	tool := ""
	if f.Step != nil {
		tool = f.Step.Tool
	}
	signature := strings.Join([]string{string(f.Class), t.ErrorCode, tool, f.Key}, "/")
	if f.Key == "" && f.Step != nil {
		signature += "/" + shape(f.Evidence)
	}
	// It outlives the task's history, so it quotes nothing.
	sum := sha256.Sum256([]byte(signature))
	f.Signature = hex.EncodeToString(sum[:16])
	return f
}

func ended(t db.Task) string {
	if t.ErrorMessage == "" {
		return ""
	}
	return "; the run ended with: " + t.ErrorMessage
}

func firstWith(steps []db.StepsToLearnRow, code fault.Code) *db.StepsToLearnRow {
	for i, s := range steps {
		if fault.Code(s.ErrorCode) == code || code == fault.PermissionDenied && s.State == "denied" {
			return &steps[i]
		}
	}
	return nil
}

// fromSteps finds the first cause in the steps: what the environment lacks, what was denied,
// or the call that failed most often without success afterwards.
func fromSteps(steps []db.StepsToLearnRow) (f Failure, found bool) {
	for i, s := range steps {
		bad := s.State == "failed" || s.State == "denied" || s.State == "unknown"
		if !bad {
			continue
		}
		if host := refusedHost(s); host != "" {
			return Failure{Class: Environment, Cause: "the jail may not connect to " + host, Step: &steps[i], Key: host, Host: host}, true
		}
		if m := missing.FindStringSubmatch(s.Observation); m != nil {
			program := m[1] + m[2]
			return Failure{Class: Environment, Cause: fmt.Sprintf("the program %q is not there", program), Step: &steps[i], Key: program}, true
		}
	}
	count := map[string]int{}
	first := map[string]int{}
	for i, s := range steps {
		key := s.State + " " + s.Tool
		switch s.State {
		case "failed", "denied", "unknown":
			if count[key]++; count[key] == 1 {
				first[key] = i
			}
		case "succeeded":
			delete(count, "failed "+s.Tool)
		}
	}
	best := ""
	for key := range count {
		if best == "" || count[key] > count[best] || count[key] == count[best] && first[key] < first[best] {
			best = key
		}
	}
	if best == "" {
		return f, false
	}
	s := &steps[first[best]]
	f = Failure{Class: Tool, Step: s, Cause: fmt.Sprintf("%s failed %s", s.Tool, times(count[best]))}
	if s.State == "denied" {
		f.Class, f.Key = Permission, s.Tool
		f.Cause = fmt.Sprintf("%s was denied %s", s.Tool, times(count[best]))
	}
	if s.State == "unknown" {
		f.Cause = fmt.Sprintf("nobody knows what a call of %s did", s.Tool)
	}
	return f, true
}

// refusedHost returns the first host that the node refused to a call's command and that a rule
// may allow, by the call's record; without its port where that is a usual one.
func refusedHost(s db.StepsToLearnRow) string {
	var refused []struct{ Host, Allow string }
	if json.Unmarshal(s.Refused, &refused) != nil {
		return ""
	}
	for _, r := range refused {
		target, err := allowlist.ParseTarget(r.Host, 443)
		switch {
		case err != nil || r.Allow == "":
		case target.Port == 443 || target.Port == 80:
			return target.Host
		default:
			return target.String()
		}
	}
	return ""
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// maxEvidence bounds what is shown of a step, in bytes.
const maxEvidence = 600

func evidence(s db.StepsToLearnRow) string {
	text := s.Observation
	if s.State == "denied" && s.DecisionReason != "" {
		text = s.DecisionReason
	}
	return textcut.Bytes(strings.TrimSpace(text), maxEvidence, "…")
}

// shape is the first words of a text, without what differs from run to run.
func shape(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return textcut.Bytes(strings.Join(strings.Fields(digits.ReplaceAllString(strings.ToLower(line), "#")), " "), 80, "…")
}
