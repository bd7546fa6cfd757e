package snapshot_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/snapshot"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// At each state files and folders are read as they were then: changed, deleted, made into
// folders and back, also after a restart of the daemon.
func TestStatesAreReadAsTheyWere(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.service(t, m.config())
	commands := []string{
		"mkdir -p src/deep && echo one > src/a && echo keep > src/deep/b",
		"echo two > src/a && printf 'x\\0y' > bin",
		"rm -r src && echo file > src",
		"rm src && mkdir src && echo three > src/a",
	}
	var states []map[string]string
	var seqs []int64
	var record string
	for i, command := range commands {
		change := m.step(t, s, string(rune('a'+i)), command)
		record = change.GetRecord()
		seqs = append(seqs, change.GetAfter())
		files := map[string]string{}
		require.NoError(t, filepath.WalkDir(m.dir(), func(path string, d os.DirEntry, err error) error {
			require.NoError(t, err)
			name, err := filepath.Rel(m.dir(), path)
			require.NoError(t, err)
			switch {
			case name == ".":
			case d.IsDir():
				files[name] = "dir"
			default:
				raw, err := os.ReadFile(path)
				require.NoError(t, err)
				files[name] = string(raw)
			}
			return nil
		}))
		states = append(states, files)
	}
	check := func(s *snapshot.Service) {
		t.Helper()
		for i, want := range states {
			at := &nodev1.StateRef{JailId: jailID, Record: record, State: seqs[i]}
			listed, err := s.ListState(t.Context(), &nodev1.ListStateRequest{At: at, Recursive: true})
			require.NoError(t, err)
			got := map[string]string{}
			for _, e := range listed.GetEntries() {
				name := string(e.GetPath())
				if e.GetState().GetType() == "dir" {
					got[name] = "dir"
					continue
				}
				read, err := s.ReadState(t.Context(), &nodev1.ReadStateRequest{At: at, Path: []byte("/workspace/" + name)})
				require.NoError(t, err)
				require.EqualValues(t, len(read.GetContent()), read.GetSize())
				require.Equal(t, e.GetState().GetDigest(), read.GetDigest())
				got[name] = string(read.GetContent())
			}
			require.Equal(t, want, got, "state %d", seqs[i])
		}
	}
	check(s)
	first := &nodev1.StateRef{JailId: jailID, State: seqs[0]}
	flat, err := s.ListState(t.Context(), &nodev1.ListStateRequest{At: first, Path: []byte("src")})
	require.NoError(t, err)
	require.Len(t, flat.GetEntries(), 2, "a and deep")
	few, err := s.ListState(t.Context(), &nodev1.ListStateRequest{At: first, Recursive: true, Limit: 2})
	require.NoError(t, err)
	require.True(t, few.GetTruncated())
	require.Len(t, few.GetEntries(), 2)
	part, err := s.ReadState(t.Context(), &nodev1.ReadStateRequest{At: first, Path: []byte("src/a"), Offset: 1, Limit: 2})
	require.NoError(t, err)
	require.Equal(t, "ne", string(part.GetContent()))
	past, err := s.ReadState(t.Context(), &nodev1.ReadStateRequest{At: first, Path: []byte("src/a"), Offset: 99})
	require.NoError(t, err)
	require.Empty(t, past.GetContent())

	for name, c := range map[string]struct {
		req  *nodev1.ReadStateRequest
		kind fault.Kind
	}{
		"a file that was not there yet": {&nodev1.ReadStateRequest{At: first, Path: []byte("bin")}, fault.NotFound},
		"a folder":                      {&nodev1.ReadStateRequest{At: first, Path: []byte("src")}, fault.Invalid},
		"a path out of the workspace":   {&nodev1.ReadStateRequest{At: first, Path: []byte("../../record.db")}, fault.NotFound},
		"a state of the future":         {&nodev1.ReadStateRequest{At: &nodev1.StateRef{JailId: jailID, State: 99}, Path: []byte("src/a")}, fault.NotFound},
		"another record":                {&nodev1.ReadStateRequest{At: &nodev1.StateRef{JailId: jailID, Record: "record_x", State: 1}, Path: []byte("src/a")}, fault.NotFound},
	} {
		_, err := s.ReadState(t.Context(), c.req)
		require.True(t, fault.Is(fault.FromGRPC(err), c.kind), "%s: %v", name, err)
	}
	s.Stop()
	check(m.service(t, m.config()))
}

// A state whose changes are not kept any more is said to be gone, with why.
func TestAForgottenStateIsNotRead(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	cfg := m.config()
	cfg.KeepFor = 1
	s := m.service(t, cfg)
	old := m.step(t, s, "a", "echo one > f")
	m.step(t, s, "b", "echo two > f")
	s.Collect(t.Context())
	_, err := s.ReadState(t.Context(), &nodev1.ReadStateRequest{At: &nodev1.StateRef{JailId: jailID, State: old.GetAfter()}, Path: []byte("f")})
	require.True(t, fault.Is(fault.FromGRPC(err), fault.NotFound), "%v", err)
	require.ErrorContains(t, err, "not any more")
}
