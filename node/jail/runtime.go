package jail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/initd"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// class is a runtime class: how jails of one kind are made.
type class struct {
	// program does the work, and shim is containerd's program that calls it, which
	// containerd knows by name.
	program, shim, name string
	// packages says which package has the program and the shim.
	packages string
	// ownKernel says that the processes of a jail run on a kernel of the jail's
	// own. The host does not see them, and shares no socket with init.
	ownKernel bool
}

// runc, runsc and kata are the names of runtimes in a spec.
const (
	runc  = "runc"
	runsc = "runsc"
	kata  = "kata"
)

var classes = map[string]class{
	runc: {
		program: "runc", shim: "containerd-shim-runc-v2", name: "io.containerd.runc.v2",
		packages: "runc and containerd: apt-get install runc containerd",
	},
	// runsc takes the same commands as runc, so that the shim of runc serves it, too.
	runsc: {
		program: "runsc", shim: "containerd-shim-runc-v2", name: "io.containerd.runc.v2", ownKernel: true,
		packages: "runsc: apt-get install runsc, from Debian or from gVisor's repository (https://gvisor.dev/docs/user_guide/install/)",
	},
	kata: {
		program: "kata-runtime", shim: "containerd-shim-kata-v2", name: "io.containerd.kata.v2", ownKernel: true,
		packages: "kata-containers (https://github.com/kata-containers/kata-containers)",
	},
}

// isThere reports whether this machine has a class's programs.
func (c class) isThere() bool {
	_, err := exec.LookPath(c.program)
	_, serr := exec.LookPath(c.shim)
	return err == nil && serr == nil
}

// runtimes returns which classes this machine has, in the order of their names.
func runtimes() []string {
	var out []string
	for name, c := range classes {
		if c.isThere() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// lacks refuses a runtime that this node does not have.
func (m *Manager) lacks(s *nodev1.JailSpec) error {
	if slices.Contains(m.runtimes, s.GetRuntime()) {
		return nil
	}
	has := "none"
	if len(m.runtimes) > 0 {
		has = strings.Join(m.runtimes, ", ")
	}
	fix := "choose a trust level that the node supports"
	if c, ok := classes[s.GetRuntime()]; ok {
		fix = "install on the node the package " + c.packages + "; then restart deckhand-node. Or " + fix
	}
	return fault.New(fault.Precondition, "this node lacks the runtime %q; it has: %s", s.GetRuntime(), has).
		WithFix("%s", fix).WithObject(s.GetJailId())
}

// withRuntime returns the option that makes a container with a class.
func (m *Manager) withRuntime(ctx context.Context, name string) (client.NewContainerOpts, error) {
	c := classes[name]
	if name != runsc {
		return client.WithRuntime(c.name, nil), nil
	}
	wrapper, err := m.wrapRunsc(ctx)
	if err != nil {
		return nil, err
	}
	return client.WithRuntime(c.name, &runcoptions.Options{BinaryName: wrapper}), nil
}

// The platforms of gVisor, which are its ways to intercept system calls.
const (
	PlatformSystrap = "systrap"
	PlatformPtrace  = "ptrace"
	PlatformKVM     = "kvm"
)

// flagsTimeout bounds how long runsc may take to list its flags.
const flagsTimeout = 10 * time.Second

// wrapperText calls runsc. The mounts are shared: the host writes to the workspace,
// and reads what init writes, at any time. The network is the jail's loopback alone.
// The shim knows a container that has ended by what runc says of it.
const wrapperText = `#!/bin/sh
set -- --platform=PLATFORM --network=none --file-access-mounts=shared "$@"
case " $* " in
*" kill "*)
	said=$('PROGRAM' "$@" 2>&1) && exit
	case $said in
	*"is not running"*) echo "container not running" >&2 ;;
	*) echo "$said" >&2 ;;
	esac
	exit 1
	;;
esac
exec 'PROGRAM' "$@"
`

// wrapRunsc writes the program that the shim calls for runc: runsc with the flags
// that this node runs it with. A jail keeps the flags that it was made with.
func (m *Manager) wrapRunsc(ctx context.Context) (string, error) {
	program, err := exec.LookPath(classes[runsc].program)
	if err != nil {
		return "", fmt.Errorf("find runsc: %w", err)
	}
	platform := m.cfg.GVisorPlatform
	if platform == "" {
		if platform, err = bestPlatform(ctx, program); err != nil {
			return "", err
		}
	}
	wrapper := filepath.Join(m.cfg.DataDir, "runtime", "runsc")
	text := strings.NewReplacer("PROGRAM", program, "PLATFORM", platform).Replace(wrapperText)
	if have, err := os.ReadFile(wrapper); err == nil && string(have) == text {
		return wrapper, nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("write the command line of runsc: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(wrapper), 0o700); err != nil {
		return "", fmt.Errorf("write the command line of runsc: %w", err)
	}
	// Shims of other jails may be about to execute it.
	if err := writeFile(wrapper, []byte(text), 0o700); err != nil {
		return "", fmt.Errorf("write the command line of runsc: %w", err)
	}
	return wrapper, nil
}

// bestPlatform returns systrap if this runsc has it, which is the faster one, and
// ptrace if it does not. Both work on every machine.
func bestPlatform(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, flagsTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "flags").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("list the flags of runsc: %w: %s", err, strings.TrimSpace(string(out)))
	}
	if strings.Contains(string(out), PlatformSystrap) {
		return PlatformSystrap, nil
	}
	return PlatformPtrace, nil
}

// sentryTasks is how many threads a gVisor kernel has by itself, and tasksEach how
// many of the host's it needs for one of a jail: with the platform
// ptrace, each process has one for each thread of the kernel that ever ran it.
const (
	sentryTasks = 512
	tasksEach   = 64
)

// forOwnKernel changes a spec for a jail with a kernel of its own, in which init
// does what the host's kernel does for the others.
func forOwnKernel(spec *oci.Spec, s *nodev1.JailSpec) {
	spec.Process.Args = []string{initMount, initd.OwnKernel, strconv.FormatInt(s.GetPids(), 10)}
	// For the cgroups of that kernel. Commands have no capabilities.
	own := []string{"CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE"}
	caps := spec.Process.Capabilities
	caps.Bounding, caps.Effective, caps.Permitted = slices.Concat(caps.Bounding, own), slices.Concat(caps.Effective, own), slices.Concat(caps.Permitted, own)
	// What the commands may have is init's to enforce.
	tasks := (s.GetPids()+initd.OwnProcesses)*tasksEach + sentryTasks
	spec.Linux.Resources.Pids.Limit = &tasks
	// That kernel has one mount for all that is mounted below a folder.
	for i := range spec.Mounts {
		spec.Mounts[i].Options = slices.DeleteFunc(slices.Clone(spec.Mounts[i].Options), func(option string) bool {
			return slices.Contains([]string{"rro", "rnosuid", "rnodev"}, option)
		})
	}
	// Their system calls are not the host's.
	spec.Linux.Seccomp = nil
}

// unsupported refuses what a jail's runtime cannot do.
func unsupported(rec *nodev1.JailRecord, what string) error {
	return fault.New(fault.Precondition, "the runtime %s does not support it: %s", rec.GetSpec().GetRuntime(), what).
		WithObject(rec.GetSpec().GetJailId())
}
