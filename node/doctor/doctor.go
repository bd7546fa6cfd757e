// Package doctor checks whether a machine can be a node: the features of its
// kernel, the installed programs, and whether its hub can be reached. It
// changes nothing. Every Finding that is not OK says how to fix it.
package doctor

import (
	"context"
	"sync"
	"time"
)

// State is how a check came out.
type State string

// The states.
const (
	OK   State = "ok"
	Warn State = "warn" // a node runs, and something is less than it could be
	Fail State = "fail" // no node runs, or no jail
)

// Finding is what one check found.
type Finding struct {
	Name  string
	State State
	Says  string
	Fix   string // empty when it is well
}

// Config is the node's, as far as it is checked. The paths are those of the
// machine; tests name others.
type Config struct {
	DataDir     string
	IdentityDir string // below DataDir
	// DiskHistory is the file of node/diskforecast; empty for none.
	DiskHistory string
	HubURL      string
	EdgeAddress string
	Containerd  string
	InitPath    string
	UIDBase     uint32

	// Root is put before every path of the machine's own (/proc, /sys, /etc,
	// /dev); empty for none.
	Root string
	// Path is where programs are looked for; empty for the environment's.
	Path string
	// UID is whose rights it has; nil for this process's.
	UID *int
	// DNSPort is the port of name servers; empty for 53.
	DNSPort string
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// patience bounds every check.
const patience = 10 * time.Second

// check looks at one thing.
type check struct {
	name string
	run  func(ctx context.Context, c Config) Finding
}

// checks in the order in which they are told.
func checks() []check {
	return []check{
		{"root", root},
		{"kernel", kernel},
		{"seccomp", seccomp},
		{"cgroups", cgroups},
		{"pressure", pressure},
		{"user namespaces", userNamespaces},
		{"user ids", userIDs},
		{"containerd", containerdServes},
		{"runtime", runtime},
		{"deckhand-init", initBinary},
		{"data folder", dataFolder},
		{"workspaces", workspaces},
		{"disk space", diskSpace},
		{"disk forecast", diskForecast},
		{"inotify", inotify},
		{"process limit", processLimit},
		{"systemd", systemd},
		{"certificate", certificate},
		{"hub", hub},
		{"clock", clock},
		{"edge", edge},
		{"egress", egress},
	}
}

// Run does every check, those that wait for others at the same time.
func Run(ctx context.Context, c Config) []Finding {
	if c.Now == nil {
		c.Now = time.Now
	}
	all := checks()
	out := make([]Finding, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			out[i] = one.run(ctx, c)
			out[i].Name = one.name
		})
	}
	wg.Wait()
	return out
}

func ok(says string) Finding         { return Finding{State: OK, Says: says} }
func warn(says, fix string) Finding  { return Finding{State: Warn, Says: says, Fix: fix} }
func fails(says, fix string) Finding { return Finding{State: Fail, Says: says, Fix: fix} }
