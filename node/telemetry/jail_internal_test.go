package telemetry

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// cgroup writes the files of a cgroup as the kernel shows them.
func cgroup(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func TestACgroupIsReadInBothVersions(t *testing.T) {
	t.Parallel()
	two := cgroup(t, map[string]string{
		"cpu.stat":        "usage_usec 4211\nuser_usec 4000\nsystem_usec 211\n",
		"memory.current":  "1000000\n",
		"memory.stat":     "anon 1\nfile 2\ninactive_file 400000\nactive_file 3\n",
		"memory.max":      "67108864\n",
		"memory.events":   "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0\n",
		"pids.current":    "7\n",
		"pids.max":        "max\n",
		"cpu.pressure":    "some avg10=1.50 avg60=0.25 avg300=0.00 total=5\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=5\n",
		"memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=2.00 avg300=0.00 total=0\n",
	})
	got, err := usage2(two)
	require.NoError(t, err)
	require.Empty(t, diff(&nodev1.Usage{
		CpuTotalUsec: proto.Int64(4211), MemoryBytes: proto.Int64(600000), MemoryLimitBytes: proto.Int64(67108864), OomKills: proto.Int64(3),
		Pids: proto.Int64(7), CpuPressure: &nodev1.Pressure{SomeAvg10: 1.5, SomeAvg60: 0.25, FullAvg10: 0.5}, MemoryPressure: &nodev1.Pressure{FullAvg60: 2},
	}, got))

	memory := cgroup(t, map[string]string{
		"memory.usage_in_bytes": "1000000\n",
		"memory.stat":           "inactive_file 1\nhierarchical_memory_limit 5\ntotal_inactive_file 1000001\n",
		"memory.limit_in_bytes": "9223372036854771712\n",
		"memory.oom_control":    "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
	})
	got, err = usage1(memory, cgroup(t, map[string]string{"cpuacct.usage": "4211999\n"}), cgroup(t, map[string]string{"pids.current": "4\n", "pids.max": "64\n"}))
	require.NoError(t, err)
	require.Empty(t, diff(&nodev1.Usage{
		CpuTotalUsec: proto.Int64(4211), MemoryBytes: proto.Int64(0), OomKills: proto.Int64(2), Pids: proto.Int64(4), PidsLimit: proto.Int64(64),
	}, got), "what can be dropped is more than what is used, and the limit is none")

	got, err = usage1("", "", "")
	require.NoError(t, err)
	require.Empty(t, diff(&nodev1.Usage{}, got), "the kernel does not account for it")
	_, err = usage2(cgroup(t, map[string]string{"memory.current": "much\n"}))
	require.ErrorContains(t, err, "memory.current")
}

// diff returns two usages if they are not equal.
func diff(want, got *nodev1.Usage) string {
	if proto.Equal(want, got) {
		return ""
	}
	return "want " + want.String() + "\ngot " + got.String()
}
