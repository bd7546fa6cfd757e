package telemetry

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func TestMain(m *testing.M) {
	code := jailtest.Run(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// serve runs a Service on real gRPC.
func serve(t *testing.T, cfg Config) nodev1.TelemetryServiceClient {
	t.Helper()
	s, err := New(cfg)
	require.NoError(t, err)
	require.NoError(t, s.Start(t.Context()))
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "api.sock"))
	require.NoError(t, err)
	server := grpc.NewServer()
	nodev1.RegisterTelemetryServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("unix://"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		server.Stop()
		require.NoError(t, s.Err())
	})
	return nodev1.NewTelemetryServiceClient(conn)
}

func watch(t *testing.T, api nodev1.TelemetryServiceClient, id string) func() *nodev1.WatchTelemetryResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	stream, err := api.WatchTelemetry(ctx, &nodev1.WatchTelemetryRequest{JailId: id})
	require.NoError(t, err)
	return func() *nodev1.WatchTelemetryResponse {
		resp, err := stream.Recv()
		require.NoError(t, err)
		return resp
	}
}

func start(t *testing.T, m *jail.Manager, id string, script ...string) {
	t.Helper()
	conn, err := m.Init(t.Context(), id)
	require.NoError(t, err)
	uid, gid := conn.User()
	resp, err := conn.Start(t.Context(), &initv1.StartRequest{ExecId: ident.New("step"), Argv: script, Uid: uid, Gid: gid})
	require.NoError(t, err)
	require.Empty(t, resp.GetStatus().GetStartError())
}

// A jail that burns a CPU, fills its workspace and is killed for memory is
// seen to, and its neighbour is not.
func TestWhatAJailUsesIsSeen(t *testing.T) {
	t.Parallel()
	cfg := jailtest.Config(t)
	m := jailtest.Manager(t, cfg)
	busy, idle := jailtest.Spec(ident.New("busy")), jailtest.Spec(ident.New("idle"))
	busy.MemoryBytes = 64 << 20
	for _, spec := range []*nodev1.JailSpec{busy, idle} {
		_, err := m.Ensure(t.Context(), spec)
		require.NoError(t, err)
	}
	api := serve(t, Config{Jails: m, Dir: cfg.DataDir, Watched: 50 * time.Millisecond})
	next := watch(t, api, "")
	first := next().GetSample()
	require.Len(t, first.GetJails(), 2)
	byID := func(sample *nodev1.TelemetrySample, id string) *nodev1.Usage {
		for _, u := range sample.GetJails() {
			if u.GetJailId() == id {
				return u
			}
		}
		return &nodev1.Usage{}
	}
	was := byID(first, busy.GetJailId())
	require.EqualValues(t, 64<<20, was.GetMemoryLimitBytes())
	require.Positive(t, was.GetMemoryBytes())
	require.Positive(t, was.GetPids())
	require.Positive(t, was.GetPidsLimit())
	require.Zero(t, was.GetOomKills())
	require.NotNil(t, was.OomKills)
	if m.HardWorkspaces() {
		require.InDelta(t, busy.GetWorkspaceBytes(), was.GetDiskLimitBytes(), 16<<20)
	}
	host := first.GetHost()
	require.Positive(t, host.GetCpuTotalUsec())
	require.NotNil(t, host.Load)
	require.Positive(t, host.GetCpus())
	require.Greater(t, host.GetMemoryLimitBytes(), host.GetMemoryBytes())
	require.Greater(t, host.GetDiskLimitBytes(), host.GetDiskBytes())

	start(t, m, busy.GetJailId(), "/bin/sh", "-c", "while :; do :; done")
	start(t, m, busy.GetJailId(), "/bin/sh", "-c", "head -c 20M /dev/zero > /workspace/big; exec python3 -c 'x = bytearray(512 << 20)'")
	var kills int64
	var spun, wrote bool
	for kills == 0 || !spun || !wrote && m.HardWorkspaces() {
		resp := next()
		u := byID(resp.GetSample(), busy.GetJailId())
		spun = spun || u.GetCpuMillis() > 100
		wrote = wrote || u.GetDiskBytes() >= was.GetDiskBytes()+20<<20
		for _, e := range resp.GetEvents() {
			if e.GetKind() == nodev1.TelemetryEvent_KIND_OUT_OF_MEMORY {
				require.Equal(t, busy.GetJailId(), e.GetJailId())
				kills += e.GetCount()
			}
		}
	}
	require.EqualValues(t, 1, kills)
	// The neighbour's start may fall into the first samples; then it sleeps.
	for awake := true; awake; {
		awake = byID(next().GetSample(), idle.GetJailId()).GetCpuMillis() >= 100
	}

	got, err := api.GetTelemetry(t.Context(), &nodev1.GetTelemetryRequest{JailId: busy.GetJailId()})
	require.NoError(t, err)
	require.NotEmpty(t, got.GetSamples())
	for _, sample := range got.GetSamples() {
		require.Nil(t, sample.GetHost())
		require.Len(t, sample.GetJails(), 1)
	}
	require.EqualValues(t, 1, byID(got.GetSamples()[len(got.GetSamples())-1], busy.GetJailId()).GetOomKills())
	kinds := map[nodev1.TelemetryEvent_Kind]int{}
	for _, e := range got.GetEvents() {
		kinds[e.GetKind()]++
	}
	require.Equal(t, 1, kinds[nodev1.TelemetryEvent_KIND_OUT_OF_MEMORY])
	none, err := api.GetTelemetry(t.Context(), &nodev1.GetTelemetryRequest{Since: timestamppb.New(time.Now().Add(time.Hour))})
	require.NoError(t, err)
	require.Empty(t, none.GetSamples())
	require.Empty(t, none.GetEvents())
}

// nobody is a node without jails.
type nobody struct{}

func (nobody) Connected() []string { return nil }
func (nobody) Cgroup(context.Context, string) (jail.Cgroup, error) {
	return jail.Cgroup{}, os.ErrNotExist
}
func (nobody) WorkspaceUse(string) (int64, int64, bool) { return 0, 0, false }

func TestSamplesAreTakenMoreOftenWhileWatchedAndForgottenInTime(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Jails: nobody{}, Dir: t.TempDir(), Keep: time.Minute})
	require.NoError(t, err)
	at := time.Now()
	for i := range 100 {
		s.publish(&nodev1.TelemetrySample{Time: timestamppb.New(at.Add(time.Duration(i) * time.Second))},
			[]*nodev1.TelemetryEvent{{Time: timestamppb.New(at.Add(time.Duration(i) * time.Second)), Count: int64(i)}}, i%15 == 0)
	}
	got, err := s.GetTelemetry(t.Context(), &nodev1.GetTelemetryRequest{})
	require.NoError(t, err)
	require.Len(t, got.GetSamples(), 5, "45, 60, 75 and 90 s, and the newest")
	require.EqualValues(t, 39, got.GetEvents()[0].GetCount())
	require.Len(t, got.GetEvents(), 61)
	got, err = s.GetTelemetry(t.Context(), &nodev1.GetTelemetryRequest{Limit: 1})
	require.NoError(t, err)
	require.Len(t, got.GetSamples(), 1)
	require.Equal(t, at.Add(99*time.Second).Unix(), got.GetSamples()[0].GetTime().GetSeconds())
	got, err = s.GetTelemetry(t.Context(), &nodev1.GetTelemetryRequest{Limit: 1, JailId: "jail_none"})
	require.NoError(t, err)
	require.Empty(t, got.GetSamples(), "of a jail those that it is in")

	api := serve(t, Config{Jails: nobody{}, Dir: t.TempDir(), Every: time.Hour, Watched: time.Millisecond})
	next := watch(t, api, "")
	for range 20 {
		next()
	}
	got, err = api.GetTelemetry(t.Context(), &nodev1.GetTelemetryRequest{})
	require.NoError(t, err)
	require.LessOrEqual(t, len(got.GetSamples()), 2, "those between are not kept")
}

// A reader that is slow misses samples and no event.
func TestEventsAreSaidOnceAndNotMissed(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Jails: nobody{}, Dir: t.TempDir()})
	require.NoError(t, err)
	usage := func(id string, disk int64, some float64, kills int64) *nodev1.Usage {
		return &nodev1.Usage{
			JailId: id, DiskBytes: proto.Int64(disk), DiskLimitBytes: proto.Int64(1000),
			MemoryPressure: &nodev1.Pressure{SomeAvg10: some}, OomKills: proto.Int64(kills),
		}
	}
	type said struct {
		jail string
		kind nodev1.TelemetryEvent_Kind
		n    int64
	}
	const (
		disk     = nodev1.TelemetryEvent_KIND_DISK_FULL
		pressure = nodev1.TelemetryEvent_KIND_PRESSURE
		memory   = nodev1.TelemetryEvent_KIND_OUT_OF_MEMORY
	)
	for i, step := range []struct {
		jails []*nodev1.Usage
		want  []said
	}{
		{[]*nodev1.Usage{usage("a", 0, 0, 7)}, nil}, // from before this daemon
		{[]*nodev1.Usage{usage("a", 995, 60, 7), usage("b", 0, 0, 2)}, []said{{"a", disk, 0}, {"a", pressure, 0}, {"b", memory, 2}}},
		{[]*nodev1.Usage{usage("a", 999, 40, 9), usage("b", 0, 0, 2)}, []said{{"a", memory, 2}}},
		{[]*nodev1.Usage{usage("a", 100, 60, 9), usage("b", 0, 0, 2)}, nil}, // pressure never ceased
		{[]*nodev1.Usage{usage("a", 995, 10, 9)}, []said{{"a", disk, 0}}},
		{[]*nodev1.Usage{usage("a", 995, 70, 1)}, []said{{"a", pressure, 0}}}, // made again
		{nil, nil},
		{[]*nodev1.Usage{usage("a", 995, 0, 0)}, []said{{"a", disk, 0}}},
	} {
		var got []said
		for _, e := range s.find(&nodev1.TelemetrySample{Host: &nodev1.Usage{}, Jails: step.jails}) {
			got = append(got, said{e.GetJailId(), e.GetKind(), e.GetCount()})
		}
		s.first = false
		require.Equal(t, step.want, got, "step %d", i)
	}
}

func TestPressureIsReadAsTheKernelWritesIt(t *testing.T) {
	t.Parallel()
	p, err := parsePressure("some avg10=13.29 avg60=38.26 avg300=38.73 total=1588633712\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=0\n")
	require.NoError(t, err)
	require.InDelta(t, 13.29, p.GetSomeAvg10(), 0.001)
	require.InDelta(t, 38.26, p.GetSomeAvg60(), 0.001)
	require.InDelta(t, 0.5, p.GetFullAvg10(), 0.001)
	_, err = parsePressure("nonsense")
	require.ErrorContains(t, err, "nonsense")
}

func TestRatesFollowFromTwoSamples(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Jails: nobody{}, Dir: t.TempDir()})
	require.NoError(t, err)
	at := time.Now()
	sample := func(after time.Duration, host, a int64) *nodev1.TelemetrySample {
		return &nodev1.TelemetrySample{
			Time: timestamppb.New(at.Add(after)), Host: &nodev1.Usage{CpuTotalUsec: proto.Int64(host)},
			Jails: []*nodev1.Usage{{JailId: "a", CpuTotalUsec: proto.Int64(a)}},
		}
	}
	for _, step := range []struct {
		sample *nodev1.TelemetrySample
		a      *int64
	}{
		{sample(0, 0, 0), nil},
		{sample(time.Second, 2_000_000, 500_000), proto.Int64(500)},
		{sample(3*time.Second, 2_000_000, 2_500_000), proto.Int64(1000)},
		{sample(2*time.Second, 2_000_000, 9_500_000), nil}, // the clock was set back
		{sample(4*time.Second, 2_000_000, 1_000), nil},     // made again
	} {
		s.rates(step.sample)
		s.last = step.sample
		require.Equal(t, step.a, step.sample.GetJails()[0].CpuMillis)
	}
}

// So many callers may watch; one more is told so, and one that leaves makes room.
func TestCallersThatWatchAreBounded(t *testing.T) {
	t.Parallel()
	api := serve(t, Config{Jails: nobody{}, Dir: t.TempDir(), Every: time.Hour, Watched: time.Millisecond})
	open := func() (leave func(), err error) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		stream, err := api.WatchTelemetry(ctx, &nodev1.WatchTelemetryRequest{})
		require.NoError(t, err)
		_, err = stream.Recv()
		return cancel, err
	}
	leave, err := open()
	require.NoError(t, err)
	for opened := 1; err == nil; opened++ {
		require.LessOrEqual(t, opened, MaxWatchers, "no bound was reached")
		_, err = open()
	}
	require.Equal(t, fault.RateLimited, fault.As(fault.FromGRPC(err)).Code)
	leave()
	require.Eventually(t, func() bool { _, err := open(); return err == nil }, time.Minute, 10*time.Millisecond)
}
