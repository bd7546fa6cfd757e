package main

import (
	"context"
	"maps"
	"slices"
	"time"
)

// result is the JSON line of a benchmark, without its name.
type result map[string]any

var benchmarks = map[string]func(context.Context) (result, error){
	"audit":            audits,
	"browser-action":   browserAction,
	"browser-snapshot": browserSnapshot,
	"browser-start":    browserStart,
	"budget":           budgets,
	"cache":            promptCache,
	"context":          contextHolds,
	"cron":             cronLateness,
	"dispatch":         dispatch,
	"egress":           egressCost,
	"exec":             execTrue,
	"exec-e2e":         execEndToEnd,
	"exec-parallel":    execParallel,
	"git-clone":        gitClone,
	"gvisor-exec":      gvisorExec,
	"image-cold":       imageCold,
	"image-prepared":   imagePrepared,
	"inject":           injectCost,
	"inject-large":     injectLarge,
	"jail-cold":        jailCold,
	"kill":             killSwitch,
	"knowledge":        known,
	"kill-tree":        killTree,
	"log-digest":       logDigest,
	"log-seek":         logSeek,
	"log-throughput":   logThroughput,
	"loop-overhead":    loopOverhead,
	"loops":            loops,
	"mcp":              mcpGet,
	"memory":           memory,
	"memory-recall":    memoryRecall,
	"node-idle":        nodeIdle,
	"nodes":            nodes,
	"noisy-neighbour":  noisyNeighbour,
	"streams":          streams,
	"pattern":          pattern,
	"policy":           policyDecision,
	"pull":             pullImage,
	"redact":           redactStream,
	"relay":            relayed,
	"rest":             restCalls,
	"semantic-grep":    semanticGrep,
	"semantic-quality": semanticQuality,
	"search":           search,
	"snapshot":         snapshotTree,
	"sse":              sse,
	"step-overhead":    stepOverhead,
	"step":             ledgerStep,
	"throughput":       throughput,
	"watch":            watch,
	"webhook-ack":      webhookAck,
	"webhook-to-task":  webhookToTask,
	"undo":             undoTree,
	"ui":               console,
	"upload":           uploadTree,
}

func names() []string { return slices.Sorted(maps.Keys(benchmarks)) }

// percentile returns the p-th percentile (0 to 100) of sorted durations, in
// milliseconds.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(p / 100 * float64(len(sorted)-1))
	return float64(sorted[i].Microseconds()) / 1000
}
