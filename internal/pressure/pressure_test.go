package pressure_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/pressure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// roomy is a machine with 4 cores that has enough of everything.
var roomy = pressure.Figures{MemoryTotal: 1000, MemoryAvailable: 500, DiskTotal: 1000, DiskFree: 500, Load: 1, Cores: 4}

var usual = pressure.Limits{MinMemory: 10, MinDisk: 5, MaxLoad: 2}

// The sentence names the figure and the limit.
func TestTheSentenceNamesFigureAndLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*pressure.Figures)
		limits pressure.Limits
		want   string
	}{
		"nothing is short":       {func(*pressure.Figures) {}, usual, ""},
		"just enough memory":     {func(f *pressure.Figures) { f.MemoryAvailable = 100 }, usual, ""},
		"too little memory":      {func(f *pressure.Figures) { f.MemoryAvailable = 99 }, usual, "free memory is 9.9 %, under the limit of 10 %"},
		"too little disk":        {func(f *pressure.Figures) { f.DiskFree = 0 }, usual, "free disk is 0 %, under the limit of 5 %"},
		"just not too much load": {func(f *pressure.Figures) { f.Load = 8 }, usual, ""},
		"too much load": {func(f *pressure.Figures) { f.Load = 22.03 }, usual,
			"the load of the last minute is 22, over the limit of 8 (2 for each of 4 cores)"},
		"switched off":     {func(f *pressure.Figures) { f.Load, f.MemoryAvailable, f.DiskFree = 99, 0, 0 }, pressure.Limits{}, ""},
		"one is not known": {func(f *pressure.Figures) { f.MemoryTotal, f.MemoryAvailable = 0, 0 }, usual, ""},
		"two at once": {func(f *pressure.Figures) { f.MemoryAvailable, f.DiskFree = 10, 10 }, usual,
			"free memory is 1 %, under the limit of 10 %; free disk is 1 %, under the limit of 5 %"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := roomy
			c.change(&f)
			require.Equal(t, c.want, c.limits.Sentence(f))
			require.LessOrEqual(t, len(c.limits.Sentence(f)), 200, "the hub takes no more")
		})
	}
}

func TestThisMachinesFigures(t *testing.T) {
	t.Parallel()
	f, err := pressure.Machine("/")(t.Context())
	require.NoError(t, err)
	require.Positive(t, f.MemoryTotal)
	require.Positive(t, f.MemoryAvailable)
	require.LessOrEqual(t, f.MemoryAvailable, f.MemoryTotal)
	require.Positive(t, f.DiskTotal)
	require.LessOrEqual(t, f.DiskFree, f.DiskTotal)
	require.Positive(t, f.Cores)
	_, err = pressure.Machine("/does/not/exist")(t.Context())
	require.Error(t, err)
}

// machine is a machine whose figures and clock the test sets.
type machine struct {
	*pressure.Watch

	t       *testing.T
	tick    chan time.Time
	now     time.Time
	figures pressure.Figures // read by the watch during look only
	err     error
	looked  chan struct{}
}

func watched(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, tick: make(chan time.Time), now: time.Now(), figures: roomy, looked: make(chan struct{}, 1)}
	m.Watch = pressure.New(pressure.Config{Limits: usual, Tick: m.tick, Measure: func(context.Context) (pressure.Figures, error) {
		defer func() { m.looked <- struct{}{} }()
		return m.figures, m.err
	}})
	require.NoError(t, m.Start(t.Context()))
	<-m.looked
	t.Cleanup(m.Stop)
	return m
}

// after has the watch look again, so much later, and returns what it says.
func (m *machine) after(d time.Duration) string {
	m.now = m.now.Add(d)
	m.tick <- m.now
	<-m.looked
	m.tick <- m.now // the look before this one is over when it is taken
	<-m.looked
	sentence, _ := m.Now()
	return sentence
}

// Pressure shows with the first look, and is over when nothing was short for
// 10 s; a figure that swings about its limit is one pressure.
func TestPressureBeginsAtOnceAndEndsAfterAWhile(t *testing.T) {
	t.Parallel()
	m := watched(t)
	require.Empty(t, m.after(time.Second))
	_, changed := m.Now()
	m.figures.MemoryAvailable = 50
	require.Equal(t, "free memory is 5 %, under the limit of 10 %", m.after(time.Second))
	<-changed
	_, changed = m.Now()
	for range 5 {
		m.figures.MemoryAvailable = 200
		require.NotEmpty(t, m.after(6*time.Second))
		m.figures.MemoryAvailable = 50
		require.NotEmpty(t, m.after(3*time.Second))
	}
	select {
	case <-changed:
		t.Fatal("the pressure was over in between")
	default:
	}
	m.figures.MemoryAvailable = 200
	require.NotEmpty(t, m.after(9*time.Second))
	require.Empty(t, m.after(time.Second), "10 s of relief")
}

// The sentence follows the figures slowly, and what is short at once.
func TestTheSentenceFollows(t *testing.T) {
	t.Parallel()
	m := watched(t)
	m.figures.MemoryAvailable = 50
	require.Contains(t, m.after(time.Second), "memory is 5 %")
	m.figures.MemoryAvailable = 40
	require.Contains(t, m.after(time.Second), "memory is 5 %")
	m.figures.DiskFree = 1
	require.Equal(t, "free memory is 4 %, under the limit of 10 %; free disk is 0.1 %, under the limit of 5 %", m.after(time.Second))
	m.figures.MemoryAvailable = 30
	require.Contains(t, m.after(14*time.Second), "memory is 4 %")
	require.Contains(t, m.after(time.Second), "memory is 3 %")
}

// A machine that cannot be measured takes work.
func TestAFigureThatCannotBeReadIsNoPressure(t *testing.T) {
	t.Parallel()
	m := watched(t)
	m.figures.Load = 100
	require.NotEmpty(t, m.after(time.Second))
	m.err = errors.New("no /proc")
	require.NotEmpty(t, m.after(5*time.Second))
	require.Empty(t, m.after(5*time.Second))
}

func TestWithoutLimitsNothingIsMeasured(t *testing.T) {
	t.Parallel()
	w := pressure.New(pressure.Config{Measure: func(context.Context) (pressure.Figures, error) {
		t.Error("measured")
		return pressure.Figures{}, nil
	}})
	require.NoError(t, w.Start(t.Context()))
	w.Stop()
	sentence, _ := w.Now()
	require.Empty(t, sentence)
}

func TestLimitsAreRead(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  string
		want pressure.Limits
		bad  string
	}{
		{nil, "", usual, ""},
		{[]string{"--pressure-min-memory", "off", "--pressure-min-disk=0", "--pressure-max-load", "3.5"}, "", pressure.Limits{MaxLoad: 3.5}, ""},
		{[]string{"--pressure-min-memory", "20%"}, "off", pressure.Limits{MinMemory: 20, MinDisk: 5}, ""},
		{[]string{"--pressure-min-disk", "-1"}, "", pressure.Limits{}, "write a number that is not negative, or off"},
		{[]string{"--pressure-min-disk", "NaN"}, "", pressure.Limits{}, "or off"},
		{[]string{"--pressure-min-disk", "some"}, "", pressure.Limits{}, "or off"},
	} {
		t.Setenv("DECKHAND_PRESSURE_MAX_LOAD", c.env)
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		pressure.Flags(flags)
		require.NoError(t, flags.Parse(c.args))
		var got struct {
			Pressure pressure.Limits `koanf:",squash"`
		}
		err := config.Load(flags, "", &got)
		if c.bad != "" {
			require.ErrorContains(t, err, c.bad)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got.Pressure)
	}
}
