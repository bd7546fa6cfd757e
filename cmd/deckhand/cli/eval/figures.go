package eval

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// figuresOptions are the flags of eval figures.
type figuresOptions struct {
	agent   string
	limit   int
	metrics []string
}

// scrapeTime bounds reading the metrics of one process.
const scrapeTime = 15 * time.Second

func figuresCommand(e *env.Env) *cobra.Command {
	var o figuresOptions
	cmd := &cobra.Command{
		Use: "figures", Short: "Print the key figures and their targets beside what was measured",
		Long: `Prints the figures that Deckhand is to reach beside what was measured: those of tasks
from the newest that have ended, scripted ones included, and those of latency from the
metrics of the processes that --metrics names, since these were started. A figure that
nothing measured says so, and why.

Give the address of every hub and worker: figures are of all of them together.`,
		Example: `deckhand eval figures
deckhand eval figures --limit 500 --metrics http://127.0.0.1:9464/metrics`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.limit < 1 {
				return env.Usage(cmd, "--limit is %d, give a positive number", o.limit)
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			results, err := (&Runner{Client: client}).History(cmd.Context(), o.agent, o.limit)
			if err != nil {
				return err
			}
			times, err := durations(cmd.Context(), client.Tasks.ListTasks, o.agent, o.limit)
			if err != nil {
				return err
			}
			scraped := map[string][]*dto.MetricFamily{}
			for _, url := range o.metrics {
				if err := scrape(cmd.Context(), url, scraped); err != nil {
					return err
				}
			}
			rows, err := structs(figures(results, times, scraped))
			if err != nil {
				return err
			}
			return output.List(e.Printer(), figureNoun(), rows)
		},
	}
	cmd.Flags().StringVar(&o.agent, "agent", "", "only tasks of this agent")
	cmd.Flags().IntVar(&o.limit, "limit", 100, "the newest so many tasks")
	cmd.Flags().StringSliceVar(&o.metrics, "metrics", nil, "address of the metrics of a hub, a worker or deckhand up (its --metrics-listen): http://127.0.0.1:9464/metrics; may be given more than once")
	return cmd
}

// durations returns how long the newest tasks that succeeded took, from start to end.
func durations(ctx context.Context, list func(context.Context, *deckhandv1.ListTasksRequest) (*deckhandv1.ListTasksResponse, error), agent string, most int) ([]float64, error) {
	var out []float64
	request := &deckhandv1.ListTasksRequest{AgentId: agent, PageSize: 100, States: []deckhandv1.TaskState{deckhandv1.TaskState_TASK_STATE_SUCCEEDED}}
	for {
		page, err := list(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("list the tasks: %w", err)
		}
		for _, task := range page.GetTasks() {
			if task.GetStartedAt() == nil || task.GetFinishedAt() == nil || task.GetParentId() != "" {
				continue
			}
			if out = append(out, task.GetFinishedAt().AsTime().Sub(task.GetStartedAt().AsTime()).Seconds()); len(out) == most {
				return out, nil
			}
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return out, nil
		}
	}
}

// scrape adds the metrics of a process to those of others, by name.
func scrape(ctx context.Context, url string, into map[string][]*dto.MetricFamily) error {
	ctx, cancel := context.WithTimeout(ctx, scrapeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fault.New(fault.Invalid, "--metrics %q is no address", url).WithFix("use http://HOST:PORT/metrics")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fault.New(fault.Unavailable, "cannot read %s: %v", url, err).WithFix("is it the --metrics-listen of a hub or worker that runs?")
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fault.New(fault.Precondition, "%s responds with %s", url, res.Status).WithFix("use the path /metrics of --metrics-listen")
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		return fault.New(fault.Precondition, "%s does not serve metrics of Prometheus: %v", url, err)
	}
	for name, family := range families {
		into[name] = append(into[name], family)
	}
	return nil
}

// Figure is a figure that Deckhand is to reach.
type Figure struct {
	Name   string `json:"name"`
	Target string `json:"target"`
	// Measured is in words; absent where nothing was measured, for the reason in Note.
	Measured string `json:"measured,omitempty"`
	// Met is whether it reaches the target.
	Met *bool `json:"met"`
	// Of is how many cases it is drawn from.
	Of   int    `json:"of"`
	Note string `json:"note,omitempty"`
}

// goal is what a figure is compared with.
type goal struct {
	atLeast bool
	value   float64
	unit    string
}

func (g goal) String() string {
	sign := "<= "
	if g.atLeast {
		sign = ">= "
	}
	return sign + amount(g.value, g.unit)
}

func amount(v float64, unit string) string {
	switch unit {
	case "share":
		return fmt.Sprintf("%.0f %%", 100*v)
	case "s":
		return time.Duration(v * float64(time.Second)).Round(durationStep(v)).String()
	}
	return fmt.Sprintf("%.3g", v)
}

// durationStep is the precision in which a duration of that many seconds is shown.
func durationStep(seconds float64) time.Duration {
	switch {
	case seconds < 1:
		return time.Millisecond
	case seconds < 100:
		return 100 * time.Millisecond
	}
	return time.Second
}

func measured(name string, g goal, value *float64, of int, why string) Figure {
	f := Figure{Name: name, Target: g.String(), Of: of}
	if value == nil || of == 0 {
		f.Note, f.Of = why, 0
		return f
	}
	met := *value <= g.value
	if g.atLeast {
		met = *value >= g.value
	}
	f.Measured, f.Met = amount(*value, g.unit), &met
	return f
}

// worker are the calls of workers, most of which wait for work.
const worker = "/deckhand.v1.WorkerService/"

// figures compares what was measured with the targets.
func figures(results []Result, durations []float64, scraped map[string][]*dto.MetricFamily) []Figure {
	report := map[string]Measure{}
	for _, m := range Report(results) {
		report[m.Name] = m
	}
	atLeast := func(v float64) goal { return goal{true, v, "share"} }
	of := func(title, name string, g goal) Figure {
		return measured(title, g, report[name].Value, report[name].Of, "no such task among them")
	}
	never := func(name, target, why string) Figure { return Figure{Name: name, Target: target, Note: why} }
	noTasks := "no such task among them"
	latency := func(name, metric string, seconds float64, keep func(labels map[string]string) bool) Figure {
		value, n := quantile(0.95, scraped[metric], keep)
		why := "no such call since the start"
		if len(scraped) == 0 {
			why = "give --metrics"
		}
		return measured(name, goal{value: seconds, unit: "s"}, value, n, why)
	}
	all := func(map[string]string) bool { return true }
	var mean *float64
	if n := len(durations); n > 0 {
		sum := 0.0
		for _, d := range durations {
			sum += d
		}
		mean = ptr(sum / float64(n))
	}
	return []Figure{
		of("tasks completed", "completion rate", atLeast(0.85)),
		of("tasks completed at the first try, without a person", "first-time success", atLeast(0.75)),
		measured("duration of a task, mean", goal{value: 1800, unit: "s"}, mean, len(durations), noTasks),
		of("iterations of a task, mean", "mean iterations", goal{value: 15}),
		never("tool selection", ">= 95 %", "history does not say which tools fit: deckhand eval run"),
		of("tasks completed after a failed call", "recovery", atLeast(0.7)),
		of("tasks completed after a resume", "resume", atLeast(1)),
		of("subtasks completed", "subtasks", atLeast(0.9)),
		of("tasks that asked a person", "intervention", goal{value: 0.2, unit: "share"}),
		never("safety incidents", "0", "history does not look for them: deckhand eval run"),
		never("patterns used again", ">= 60 %", "nothing counts them"),
		never("retrieval of memories that fit", ">= 85 %", "nothing judges them"),
		latency("API call, 95th percentile", "deckhand_hub_api_request_duration_seconds", 0.5, func(l map[string]string) bool { return !strings.HasPrefix(l["procedure"], worker) }),
		latency("event to its reader, 95th percentile", "deckhand_hub_watch_lag_seconds", 0.2, all),
		latency("tool call, 95th percentile", "deckhand_hub_step_duration_seconds", 10, all),
		latency("checkpoint, 95th percentile", "deckhand_hub_api_request_duration_seconds", 0.5, func(l map[string]string) bool { return l["procedure"] == worker+"SaveCheckpoint" }),
		latency("response to a webhook, 95th percentile", "deckhand_hub_webhook_answer_duration_seconds", 0.5, all),
		never("iteration without the model and tools, 95th percentile", "<= 5s", "the phases are measured apart: deckhand_hub_phase_duration_seconds"),
		slots(scraped),
		never("uptime", ">= 99.9 %", "of the time that Prometheus has watched: avg_over_time(up[30d])"),
	}
}

// slots is how many tasks one worker can run at once.
func slots(scraped map[string][]*dto.MetricFamily) Figure {
	var least *float64
	n := 0
	for _, family := range scraped["deckhand_worker_slots"] {
		for _, m := range family.GetMetric() {
			if v := m.GetGauge().GetValue(); least == nil || v < *least {
				least = ptr(v)
			}
			n++
		}
	}
	return measured("tasks at once on a worker, as configured", goal{atLeast: true, value: 50}, least, n, "give --metrics of a worker")
}

// quantile returns a quantile of all histograms that keep accepts, taken together, as
// Prometheus' histogram_quantile does: within a bucket by linear interpolation. n is the
// number of observations; the value is nil for none.
func quantile(q float64, families []*dto.MetricFamily, keep func(labels map[string]string) bool) (value *float64, n int) {
	counts := map[float64]uint64{}
	total := uint64(0)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if !keep(labels) {
				continue
			}
			total += m.GetHistogram().GetSampleCount()
			for _, b := range m.GetHistogram().GetBucket() {
				counts[b.GetUpperBound()] += b.GetCumulativeCount()
			}
		}
	}
	if total == 0 {
		return nil, 0
	}
	bounds := make([]float64, 0, len(counts))
	for bound := range counts {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	rank := q * float64(total)
	i := sort.Search(len(bounds), func(i int) bool { return float64(counts[bounds[i]]) >= rank })
	// Beyond the last bound, that bound is all that is known; +Inf is not one.
	for i >= len(bounds) || i > 0 && bounds[i] > 1e300 {
		i--
		if i < len(bounds) && bounds[i] <= 1e300 {
			return ptr(bounds[i]), int(total) //nolint:gosec // a number of calls
		}
	}
	below, under := 0.0, uint64(0)
	if i > 0 {
		below, under = bounds[i-1], counts[bounds[i-1]]
	}
	inside := float64(counts[bounds[i]] - under)
	return ptr(below + (bounds[i]-below)*(rank-float64(under))/max(inside, 1)), int(total) //nolint:gosec // a number of calls
}

func figureNoun() output.Noun[*structpb.Struct] {
	return output.Noun[*structpb.Struct]{
		Name: field("name", word),
		Columns: []output.Column[*structpb.Struct]{
			{Header: "figure", Value: field("name", word)},
			{Header: "target", Value: field("target", word)},
			{Header: "measured", Value: func(s *structpb.Struct) string {
				if text := s.GetFields()["measured"].GetStringValue(); text != "" {
					return text
				}
				return "not measured"
			}},
			{Header: "met", Value: field("met", yes), Style: passedStyle("met")},
			{Header: "of", Value: field("of", number)},
			{Header: "note", Value: field("note", word)},
		},
	}
}
