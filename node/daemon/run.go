package daemon

import (
	"context"
	"sync"
)

// Run runs a node until ctx ends or it fails. The process is taken for one that does
// nothing else: its memory is kept small, and unused memory is returned to the kernel.
func Run(ctx context.Context, cfg Config) error {
	keepSmall()
	node, err := cfg.Complete(ctx)
	if err != nil {
		return err
	}
	defer node.Stop()
	if err := node.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop meanwhile
		}
		return err
	}
	settling, settled := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { settle(settling) })
	<-node.Done()
	settled()
	wg.Wait()
	node.Stop()
	cfg.Log.Info("stopped; commands in jails continue")
	return node.Err()
}
