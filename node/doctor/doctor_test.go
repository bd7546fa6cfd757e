package doctor

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/node/containerd"
	"github.com/deckhand-sh/deckhand/node/diskforecast"
	"github.com/deckhand-sh/deckhand/node/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is a machine that is well, as files.
func machine(t *testing.T) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "deckhand-doctor-") // every folder above is searchable, unlike t.TempDir's
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o711))
	uid := 0
	c := Config{
		DataDir: filepath.Join(dir, "data"), IdentityDir: "identity", Containerd: filepath.Join(dir, "containerd.sock"),
		UIDBase: 1_000_000_000, Root: filepath.Join(dir, "root"), Path: filepath.Join(dir, "bin"), UID: &uid, Now: time.Now,
	}
	for path, text := range map[string]string{
		"/proc/sys/kernel/osrelease": "6.1.0-18-amd64", "/proc/sys/kernel/seccomp/actions_avail": "kill_process errno allow",
		"/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids", "/proc/pressure/memory": "some avg10=0.00",
		"/proc/sys/user/max_user_namespaces": "15000", "/etc/subuid": "agent:100000:65536", "/dev/loop-control": "",
		"/proc/sys/fs/inotify/max_user_watches": "524288", "/proc/sys/fs/inotify/max_user_instances": "1024", "/proc/sys/kernel/pid_max": "4194304",
		"/proc/filesystems": "\text4", "/run/systemd/system/x": "", "/etc/systemd/system/deckhand-node.service": "",
	} {
		c.write(t, path, text)
	}
	for _, program := range []string{"runc", "containerd-shim-runc-v2", "mkfs.ext4", "nsenter", "deckhand-init"} {
		require.NoError(t, os.MkdirAll(c.Path, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(c.Path, program), nil, 0o755))
	}
	c.InitPath = filepath.Join(c.Path, "deckhand-init")
	return c
}

func (c Config) write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(c.at(path)), 0o755))
	require.NoError(t, os.WriteFile(c.at(path), []byte(text), 0o644))
}

func (c Config) remove(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(c.at(path)))
}

func TestWhatIsWrongWithAMachineIsSaidWithWhatToDo(t *testing.T) {
	t.Parallel()
	nobody := 1000
	for name, tc := range map[string]struct {
		run    func(context.Context, Config) Finding
		change func(t *testing.T, c *Config)
		state  State
		says   string
		fix    string
	}{
		"it is run by root":                {root, nil, OK, "root", ""},
		"it is run by somebody else":       {root, func(_ *testing.T, c *Config) { c.UID = &nobody }, Fail, "user 1000", "as root"},
		"the kernel is new enough":         {kernel, nil, OK, "6.1", ""},
		"the kernel is too old":            {kernel, func(t *testing.T, c *Config) { c.write(t, "/proc/sys/kernel/osrelease", "4.19.0") }, Fail, "4.19", "5.6"},
		"the kernel's release is odd":      {kernel, func(t *testing.T, c *Config) { c.write(t, "/proc/sys/kernel/osrelease", "x") }, Warn, "x", "5.6"},
		"system calls are filtered":        {seccomp, nil, OK, "filters", ""},
		"system calls are not filtered":    {seccomp, func(t *testing.T, c *Config) { c.remove(t, "/proc/sys/kernel/seccomp") }, Fail, "no seccomp", "CONFIG_SECCOMP"},
		"cgroups are of version 2":         {cgroups, nil, OK, "version 2", ""},
		"version 2 lacks a controller":     {cgroups, func(t *testing.T, c *Config) { c.write(t, "/sys/fs/cgroup/cgroup.controllers", "cpu io") }, Fail, "without memory, pids", "subtree_control"},
		"there are no cgroups":             {cgroups, func(t *testing.T, c *Config) { c.remove(t, "/sys/fs/cgroup") }, Fail, "nothing is mounted", "mount"},
		"pressure is told":                 {pressure, nil, OK, "", ""},
		"pressure is not told":             {pressure, func(t *testing.T, c *Config) { c.remove(t, "/proc/pressure") }, Warn, "pressure", "psi=1"},
		"user namespaces may be made":      {userNamespaces, nil, OK, "15000", ""},
		"user namespaces are switched off": {userNamespaces, func(t *testing.T, c *Config) { c.write(t, "/proc/sys/user/max_user_namespaces", "0") }, Fail, "off", "sysctl"},
		"there are no user namespaces":     {userNamespaces, func(t *testing.T, c *Config) { c.remove(t, "/proc/sys/user") }, Fail, "none", "CONFIG_USER_NS"},
		"nobody else has the ids":          {userIDs, nil, OK, "1000000000 to 1000065535", ""},
		"somebody else has the ids":        {userIDs, func(t *testing.T, c *Config) { c.write(t, "/etc/subgid", "x:1\nme:1000000005:10\n") }, Warn, "to me", "--uid-base"},
		"containerd has no socket":         {containerdServes, nil, Fail, "no socket", "apt-get install containerd"},
		"nobody serves on the socket":      {containerdServes, func(t *testing.T, c *Config) { require.NoError(t, os.WriteFile(c.Containerd, nil, 0o600)) }, Fail, "no containerd at", "systemctl status containerd"},
		"the runtime is there":             {runtime, nil, OK, "runc", ""},
		"the runtime is missing":           {runtime, func(_ *testing.T, c *Config) { c.Path = "/nowhere" }, Fail, "runc and containerd-shim-runc-v2", "apt-get install"},
		"init is where it was named":       {initBinary, nil, OK, "deckhand-init", ""},
		"init is not where it was named":   {initBinary, func(_ *testing.T, c *Config) { c.InitPath = "/nowhere" }, Fail, "/nowhere", "--init-path"},
		"the data folder will be made":     {dataFolder, nil, OK, "data", ""},
		"a folder above is closed": {dataFolder, func(t *testing.T, c *Config) {
			require.NoError(t, os.MkdirAll(filepath.Join(c.DataDir, "closed", "x"), 0o755))
			require.NoError(t, os.Chmod(filepath.Join(c.DataDir, "closed"), 0o700))
			c.DataDir = filepath.Join(c.DataDir, "closed", "x")
		}, Fail, "closed is not searchable", "chmod o+x"},
		"the data folder is a file": {dataFolder, func(t *testing.T, c *Config) { require.NoError(t, os.WriteFile(c.DataDir, nil, 0o644)) }, Fail, "is no folder", "--data-dir"},
		"workspaces are held":       {workspaces, nil, OK, "held", ""},
		"nsenter is missing":        {userNamespaces, func(_ *testing.T, c *Config) { c.Path = "/nowhere" }, Fail, "nsenter", "util-linux"},
		"mkfs is missing":           {workspaces, func(_ *testing.T, c *Config) { c.Path = "/nowhere" }, Warn, "mkfs.ext4", "e2fsprogs"},
		"there are no loop devices": {workspaces, func(t *testing.T, c *Config) { c.remove(t, "/dev/loop-control") }, Warn, "loop devices", "modprobe loop"},
		"systemd has it":            {systemd, nil, OK, "installed", ""},
		"systemd does not have it":  {systemd, func(t *testing.T, c *Config) { c.remove(t, "/etc/systemd") }, Warn, "not installed", "deckhand-node install"},
		"there is no systemd":       {systemd, func(t *testing.T, c *Config) { c.remove(t, "/run/systemd") }, Warn, "does not run", "start it again"},
		"it is not enrolled":        {certificate, nil, Warn, "not enrolled", "deckhand node token"},
		"a key without a node": {certificate, func(t *testing.T, c *Config) {
			_, err := identity.Open(identity.Config{Dir: filepath.Join(c.DataDir, c.IdentityDir)})
			require.NoError(t, err)
		}, Warn, "not enrolled", "deckhand node token"},
		"the identity is damaged": {certificate, func(t *testing.T, c *Config) {
			dir := filepath.Join(c.DataDir, c.IdentityDir)
			_, err := identity.Open(identity.Config{Dir: dir})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "node.json"), []byte("{"), 0o600))
		}, Fail, "node.json", "enrol again"},
		"no hub is named":                {hub, nil, OK, "only the link", ""},
		"the hub cannot be reached":      {hub, func(_ *testing.T, c *Config) { c.HubURL = "http://127.0.0.1:1" }, Fail, "refused", "firewall"},
		"the edge is not known":          {edge, nil, OK, "not known", ""},
		"the edge does not answer":       {edge, func(_ *testing.T, c *Config) { c.EdgeAddress = "127.0.0.1:1" }, Fail, "refused", "--edge-address"},
		"many files can be watched":      {inotify, nil, OK, "524288 watches", ""},
		"few files can be watched":       {inotify, func(t *testing.T, c *Config) { c.write(t, "/proc/sys/fs/inotify/max_user_watches", "8192") }, Warn, "8192 watches", "sysctl fs.inotify"},
		"there is room for processes":    {processLimit, nil, OK, "4194304", ""},
		"there are few process ids":      {processLimit, func(t *testing.T, c *Config) { c.write(t, "/proc/sys/kernel/pid_max", "4096") }, Warn, "4096", "sysctl kernel.pid_max"},
		"the disk's future is not known": {diskForecast, nil, OK, "not known yet", ""},
		"the disk fills up": {diskForecast, func(t *testing.T, c *Config) {
			c.DiskHistory = filepath.Join(t.TempDir(), "history.json")
			var samples []diskforecast.Sample
			for i := range 24 {
				samples = append(samples, diskforecast.Sample{At: time.Now().Add(time.Duration(i-24) * time.Hour), Free: int64(100-i) << 30})
			}
			data, err := json.Marshal(samples)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(c.DiskHistory, data, 0o600))
		}, Warn, "it is full in 3 days", "make room"},
		"nothing tells the time": {clock, nil, OK, "nothing was compared", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := machine(t)
			if tc.change != nil {
				tc.change(t, &c)
			}
			got := tc.run(t.Context(), c)
			require.Equal(t, tc.state, got.State, "%+v", got)
			require.Contains(t, got.Says, tc.says)
			require.Contains(t, got.Fix, tc.fix)
			require.Equal(t, tc.state == OK, got.Fix == "", "what is not well says what to do: %+v", got)
		})
	}
}

func TestVersionOneOfCgroupsNeedsAFreezer(t *testing.T) {
	t.Parallel()
	c := machine(t)
	c.remove(t, "/sys/fs/cgroup")
	for _, controller := range []string{"cpu,cpuacct", "memory", "pids"} {
		c.write(t, "/sys/fs/cgroup/"+controller+"/tasks", "")
	}
	got := cgroups(t.Context(), c)
	require.Equal(t, Fail, got.State)
	require.Contains(t, got.Says, "without freezer")
	c.write(t, "/sys/fs/cgroup/freezer/tasks", "")
	require.Equal(t, ok("version 1"), cgroups(t.Context(), c))
}

func TestTheClockIsComparedWithTheHubs(t *testing.T) {
	t.Parallel()
	hubNow := time.Now()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", hubNow.UTC().Format(http.TimeFormat))
	}))
	t.Cleanup(server.Close)
	for off, want := range map[time.Duration]State{0: OK, 30 * time.Second: Warn, -30 * time.Second: Warn, time.Hour: Fail, -time.Hour: Fail} {
		c := machine(t)
		c.HubURL, c.Now = server.URL, func() time.Time { return hubNow.Add(off) }
		got := clock(t.Context(), c)
		require.Equal(t, want, got.State, "%s off: %+v", off, got)
		require.Equal(t, OK, hub(t.Context(), c).State)
	}
}

func TestTheRoomOnTheDiskIsJudged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		free, inodes int64
		want         State
	}{{100 << 20, 1 << 20, Fail}, {5 << 30, 1 << 20, Warn}, {50 << 30, 500, Warn}, {50 << 30, 1 << 20, OK}, {50 << 30, 0, OK}} {
		require.Equal(t, tc.want, spaceLeft(tc.free, tc.inodes, "/x").State, "%+v", tc)
	}
}

// With a real containerd, a hub that answers and an edge that listens, nothing
// is in the way of a machine that is well.
func TestAMachineThatIsWellHasNothingFailed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("containerd needs root")
	}
	c := machine(t)
	daemon, err := containerd.Config{DataDir: filepath.Join(t.TempDir(), "ctr")}.Complete(t.Context())
	require.NoError(t, err)
	require.NoError(t, daemon.Start(t.Context()))
	t.Cleanup(daemon.Stop)
	c.Containerd = daemon.Address()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	c.HubURL = server.URL
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	c.EdgeAddress = listener.Addr().String()
	found := Run(t.Context(), c)
	require.Len(t, found, len(checks()))
	for _, f := range found {
		require.NotEqual(t, Fail, f.State, "%+v", f)
		require.NotEmpty(t, f.Name)
		require.NotEmpty(t, f.Says)
	}
	require.NoDirExists(t, c.DataDir, "nothing was changed")
}
