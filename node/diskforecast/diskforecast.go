// Package diskforecast says when a node's disk will be full. A History keeps how much was
// free, once an hour for two weeks, in a small file, and fits a line through it.
//
// A file that cannot be read counts as empty: the forecast begins again. Losing it costs
// nothing but a day without a forecast.
package diskforecast

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/wholefile"
)

const (
	// every is how often a sample is kept, and keep how many are.
	every = time.Hour
	keep  = 14 * 24
	// leastSamples and leastSpan are what a forecast needs.
	leastSamples = 6
	leastSpan    = 12 * time.Hour
)

// Sample is how many bytes were free at a time.
type Sample struct {
	At   time.Time `json:"at"`
	Free int64     `json:"free"`
}

// History keeps samples. It is a lifecycle.Service.
type History struct {
	lifecycle.Runner

	path, dir string
}

// New returns the history in the file at path, of the disk that dir is on.
func New(path, dir string) *History { return &History{path: path, dir: dir} }

// Start begins to keep samples.
func (h *History) Start(ctx context.Context) error {
	return h.Run(ctx, func(ctx context.Context) error {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			// A full disk keeps nothing: the samples before it say enough.
			_ = h.Add(time.Now())
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
}

// Add keeps a sample, unless the newest is younger than an hour.
func (h *History) Add(now time.Time) error {
	samples := Read(h.path)
	if n := len(samples); n > 0 && now.Sub(samples[n-1].At) < every-time.Minute && !now.Before(samples[n-1].At) {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(h.dir, &st); err != nil {
		return fmt.Errorf("look at the disk: %w", err)
	}
	samples = append(samples, Sample{At: now.UTC().Truncate(time.Second), Free: int64(st.Bavail) * st.Bsize}) //nolint:gosec // a disk's size
	data, err := json.Marshal(samples[max(0, len(samples)-keep):])
	if err != nil {
		return fmt.Errorf("encode the history of the disk: %w", err)
	}
	return wholefile.Write(h.path, data, 0o600)
}

// Read returns the samples of a file; none if it cannot be read.
func Read(path string) (samples []Sample) {
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &samples) != nil {
		return nil
	}
	return samples
}

// Forecast is what the samples say.
type Forecast struct {
	// PerDay is how many bytes are used more each day; negative if space is freed.
	PerDay int64
	// Full is in how long none is free; 0 if that is not to be expected within a year.
	Full time.Duration
}

// Of fits a line through samples by least squares; false if there are too few.
func Of(samples []Sample) (Forecast, bool) {
	n := len(samples)
	if n < leastSamples || samples[n-1].At.Sub(samples[0].At) < leastSpan {
		return Forecast{}, false
	}
	var sumT, sumF, sumTT, sumTF float64
	for _, s := range samples {
		t, f := s.At.Sub(samples[0].At).Hours()/24, float64(s.Free)
		sumT, sumF, sumTT, sumTF = sumT+t, sumF+f, sumTT+t*t, sumTF+t*f
	}
	count := float64(n)
	divisor := count*sumTT - sumT*sumT
	if divisor == 0 {
		return Forecast{}, false
	}
	perDay := -(count*sumTF - sumT*sumF) / divisor
	out := Forecast{PerDay: int64(perDay)}
	if perDay > 0 {
		if days := float64(samples[n-1].Free) / perDay; days < 365 {
			out.Full = time.Duration(days * 24 * float64(time.Hour))
		}
	}
	return out, true
}
