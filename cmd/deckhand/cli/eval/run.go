package eval

import (
	"cmp"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// runOptions are the flags of eval run.
type runOptions struct {
	only   []string
	least  float64
	runner *Runner
}

func runCommand(e *env.Env) *cobra.Command {
	o := runOptions{runner: &Runner{}}
	cmd := &cobra.Command{
		Use: "run [FOLDER]", Short: "Run scenarios and report how well the agent did",
		Long: `Runs each scenario of a folder on the hub: its own agent, its files, its goal. Then
it looks at the workspace with the scenario's checks; what the agent says counts
for nothing. Without FOLDER it takes the scenarios of this release, and without
--provider each scenario's script plays the model.

The exit code is 1 when fewer scenarios pass than --least says.`,
		Example: `deckhand eval run
deckhand eval run --only rename-function,triage-log --least 1
deckhand eval run scenarios/ --provider anthropic --model claude-sonnet-5-5`,
		Args: env.Args("[FOLDER]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (o.runner.Provider == "") != (o.runner.Model == "") {
				return env.Usage(cmd, "--provider and --model go together")
			}
			if o.least < 0 || o.least > 1 {
				return env.Usage(cmd, "--least is %v, give a share from 0 to 1", o.least)
			}
			folder := Starter()
			if len(args) > 0 {
				folder = os.DirFS(args[0])
			}
			scenarios, err := Load(folder)
			if err != nil {
				return err
			}
			for _, name := range o.only {
				if !slices.ContainsFunc(scenarios, func(s Scenario) bool { return s.Name == name }) {
					return env.Usage(cmd, "--only names %q, and there is no such scenario", name)
				}
			}
			scenarios = slices.DeleteFunc(scenarios, func(s Scenario) bool { return len(o.only) > 0 && !slices.Contains(o.only, s.Name) })
			if o.runner.Client, err = e.Client(); err != nil {
				return err
			}
			results, err := o.runner.Run(cmd.Context(), scenarios)
			if err != nil {
				return err
			}
			if err := printReport(e, Run{Provider: cmp.Or(o.runner.Provider, persona.ProviderScript), Model: o.runner.Model}, results); err != nil {
				return err
			}
			passed := 0
			for _, r := range results {
				if r.Passed {
					passed++
				}
			}
			if float64(passed) < o.least*float64(len(results)) {
				return env.Failed(env.ExitFailed, fault.New(fault.Precondition, "%d of %d scenarios passed, and --least is %v", passed, len(results), o.least).
					WithFix("see why: deckhand task watch TASK"))
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&o.only, "only", nil, "only these scenarios, by name")
	cmd.Flags().StringVar(&o.runner.Provider, "provider", "", "model family to run with, in place of the scripts")
	cmd.Flags().StringVar(&o.runner.Model, "model", "", "model to run with")
	cmd.Flags().StringVar(&o.runner.Prefix, "prefix", "eval", "how the scenarios' agents are named, PREFIX-SCENARIO; their workspaces are cleared")
	cmd.Flags().IntVar(&o.runner.Parallel, "parallel", 4, "how many scenarios run side by side")
	cmd.Flags().DurationVar(&o.runner.Timeout, "timeout", 15*time.Minute, "how long one scenario may take")
	cmd.Flags().Float64Var(&o.least, "least", 0.85, "share of the scenarios that must pass")
	return cmd
}
