package jail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/initd"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// In a jail whose user is root, commands run as user 0 of a user namespace below the
// jail's, which init makes and enters each command into. Init itself runs as
// initd.RootInit, the one id of the jail's that is not mapped there: whatever rights a
// command has in its namespace, it has none over init's processes and files.

// initOwner returns the user, on the host, that a jail's init runs as.
func (m *Manager) initOwner(spec *nodev1.JailSpec) int {
	switch {
	case spec.GetJailId() == HostID:
		return 0
	case spec.GetRootUser():
		return int(m.cfg.UIDBase) + initd.RootInit
	}
	return int(m.cfg.UIDBase)
}

// withRootUser completes the specification of a jail whose user is root.
func withRootUser(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	s.Process.User = specs.User{UID: initd.RootInit, GID: initd.RootInit}
	s.Process.Args = append(s.Process.Args, initd.CommandsAsRoot)
	c := s.Process.Capabilities
	// To map a user 0, its maker needs SETFCAP, and a program that is not user 0's keeps
	// ambient capabilities only.
	c.Bounding = append(slices.Clone(c.Bounding), "CAP_SETFCAP")
	c.Permitted, c.Effective, c.Inheritable, c.Ambient = c.Bounding, c.Bounding, c.Bounding, c.Bounding
	s.Linux.Seccomp.Syscalls = append(s.Linux.Seccomp.Syscalls,
		specs.LinuxSyscall{
			Names: []string{"clone"}, Action: specs.ActAllow,
			Args: []specs.LinuxSeccompArg{{Index: 0, Value: cloneNamespaces, ValueTwo: unix.CLONE_NEWUSER, Op: specs.OpMaskedEqual}},
		},
		specs.LinuxSyscall{
			Names: []string{"setns"}, Action: specs.ActAllow,
			Args: []specs.LinuxSeccompArg{{Index: 1, Value: unix.CLONE_NEWUSER, Op: specs.OpEqualTo}},
		},
	)
	return nil
}

// cloneNamespaces are the flags of clone(2) that make namespaces.
const cloneNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// procMount returns the mount of a jail's /proc. If its user is root, /proc hides init: some
// files there belong to the user 0 of the jail.
func procMount(spec *nodev1.JailSpec) specs.Mount {
	options := []string{"nosuid", "noexec", "nodev"}
	if spec.GetRootUser() {
		options = append(options, "hidepid=2", "gid="+strconv.Itoa(initd.RootInit))
	}
	return specs.Mount{Type: "proc", Source: "proc", Destination: "/proc", Options: options}
}

// giveState gives a jail's state to its init. The state may be of an init that was another
// user, and is hostile by now: nothing in it is followed.
func giveState(p paths, owner int) error {
	state, err := os.OpenRoot(p.state)
	if err != nil {
		return fmt.Errorf("open the jail's state: %w", err)
	}
	defer state.Close()
	info, err := state.Stat(".")
	if err != nil {
		return fmt.Errorf("look for the owner of the jail's state: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("the owner of the jail's state cannot be read")
	}
	if int(stat.Uid) == owner && int(stat.Gid) == owner {
		return nil
	}
	// The folder itself comes last: until then the change is done again.
	err = fs.WalkDir(state.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		return state.Lchown(name, owner, owner)
	})
	if err == nil {
		err = state.Chown(".", owner, owner)
	}
	if err != nil {
		return fmt.Errorf("give the jail's state to its init: %w", err)
	}
	return nil
}
