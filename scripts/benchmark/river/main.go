// Command river measures how many no-op jobs a second River completes on a
// database. `scripts/bench throughput` compares Deckhand with it. It is a
// separate module so that River is not a dependency of the main one.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type noopArgs struct{}

func (noopArgs) Kind() string { return "noop" }

type noopWorker struct {
	river.WorkerDefaults[noopArgs]

	left *atomic.Int64
	done chan struct{}
}

func (w *noopWorker) Work(context.Context, *river.Job[noopArgs]) error {
	if w.left.Add(-1) == 0 {
		close(w.done)
	}
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run inserts jobs one by one while a client works them, and prints the rates
// of insertion and of whole lives.
func run(ctx context.Context) error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: river DATABASE-URL JOBS")
	}
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return fmt.Errorf("JOBS: %w", err)
	}
	pool, err := pgxpool.New(ctx, os.Args[1])
	if err != nil {
		return err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	left, done := &atomic.Int64{}, make(chan struct{})
	left.Store(int64(n))
	workers := river.NewWorkers()
	river.AddWorker(workers, &noopWorker{left: left, done: done})
	client, err := river.NewClient(driver, &river.Config{
		Logger:  slog.New(slog.DiscardHandler),
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 200}},
		Workers: workers,
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	begin := time.Now()
	for range n {
		if _, err := client.Insert(ctx, noopArgs{}, nil); err != nil {
			return err
		}
	}
	inserted := time.Since(begin)
	<-done
	if err := client.Stop(ctx); err != nil { // the completer has stored every end
		return err
	}
	lived := time.Since(begin)
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"insert_per_s": float64(n) / inserted.Seconds(), "per_s": float64(n) / lived.Seconds(),
	})
}
