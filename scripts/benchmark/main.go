// Command benchmark measures Deckhand's performance; scripts/bench runs it.
package main

import (
	egressproxy "github.com/deckhand-sh/deckhand/node/egress/process"

	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
)

func main() {
	egressproxy.RunIfAsked()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if egressRole() || leastRole() {
		return
	}
	if len(os.Args) != 2 || benchmarks[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "usage: scripts/bench NAME, where NAME is one of %v\n", names())
		os.Exit(2)
	}
	out, err := profiled(ctx, benchmarks[os.Args[1]])
	if err == nil {
		out["name"] = os.Args[1]
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// envProfile names the file that gets a CPU profile of what runs in this process.
const envProfile = "DECKHAND_BENCH_PROFILE"

func profiled(ctx context.Context, run func(context.Context) (result, error)) (out result, err error) {
	path := os.Getenv(envProfile)
	if path == "" {
		return run(ctx)
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	defer pprof.StopCPUProfile()
	return run(ctx)
}
