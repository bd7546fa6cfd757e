package initd

import (
	"runtime"
	"sync"
)

// Init must not need a thread when the jail is at its limit of processes: the
// runtime of Go cannot go on without one, and with PID 1 the whole jail would
// end. So no more than slots goroutines are in the file system at once, the
// processors are few, and as many threads as that can ever take are made while
// there is room. Threads stay once made.

const (
	slots      = 16
	processors = 4
	// Beside those: the monitor, signals, and what the runtime keeps apart.
	spareThreads = 6
)

const threads = slots + processors + spareThreads

// OwnProcesses is how many of a jail's processes are init's own: its threads,
// and the stubs that wait for commands.
const OwnProcesses = threads + readyStubs

// gate lets few goroutines through at once.
type gate chan struct{}

func newGate() gate { return make(gate, slots) }

// do runs fn, which may block in the file system but waits for nobody.
func (g gate) do(fn func()) {
	g <- struct{}{}
	defer func() { <-g }()
	fn()
}

// makeThreads makes the runtime start every thread it may need.
func makeThreads() {
	runtime.GOMAXPROCS(min(processors, runtime.NumCPU()))
	var ready, done sync.WaitGroup
	ready.Add(threads)
	release := make(chan struct{})
	for range threads {
		done.Go(func() {
			// Each holds a thread of its own until all do.
			runtime.LockOSThread()
			ready.Done()
			<-release
			runtime.UnlockOSThread()
		})
	}
	ready.Wait()
	close(release)
	done.Wait()
}
