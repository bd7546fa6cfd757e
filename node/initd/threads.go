package initd

import (
	"runtime"
	"sync"
)

// Init must not need a new thread when the jail has reached its limit of
// processes: the Go runtime cannot continue without one, and with PID 1 the
// whole jail would end. So at most slots goroutines access the file system at
// once, the number of processors is small, and all threads that this can ever
// need are created in advance, while there is room. Threads persist once
// created.

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

// do runs fn, which may block in the file system but must not wait for another
// process.
func (g gate) do(fn func()) {
	g <- struct{}{}
	defer func() { <-g }()
	fn()
}

// makeThreads makes the runtime start every thread it may need. On a kernel of the
// jail's own one processor is faster: threads that wake each other cost more there
// than what they would do at once.
func makeThreads(ownKernel bool) {
	if ownKernel {
		runtime.GOMAXPROCS(1)
	} else {
		runtime.GOMAXPROCS(min(processors, runtime.NumCPU()))
	}
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
