package daemon

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// metrics count what a node does, for Prometheus. Nothing of a command but how
// it ended reaches them.
type metrics struct {
	execs, linkChanges *prometheus.CounterVec
	duration, commit   prometheus.Histogram
	logBytes           prometheus.Counter
	linkUp             prometheus.Gauge
}

var (
	execSeconds   = []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600}
	commitSeconds = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1}
)

// nodeState returns the figures that a node's gauges report at a scrape.
type nodeState struct {
	dir      string // of the disk that the node works on
	jails    func() int
	reserved func() bool
	usage    func() *nodev1.TelemetrySample // nil while there is none
}

func newMetrics(r prometheus.Registerer, now nodeState) *metrics {
	const prefix = "deckhand_node_"
	m := &metrics{
		execs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "execs_total", Help: "Commands that ended, by why.",
		}, []string{"reason"}),
		linkChanges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "link_changes_total", Help: "Sessions with the hub that began, and that ended.",
		}, []string{"to"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "exec_duration_seconds", Help: "Time from a command's start to its end.", Buckets: execSeconds,
		}),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "ledger_commit_duration_seconds", Help: "Time until a transaction of the ledger was on disk.", Buckets: commitSeconds,
		}),
		logBytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "log_bytes_total", Help: "Bytes that ended commands wrote to their logs.",
		}),
		linkUp: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "link_up", Help: "Whether a session with the hub stands.",
		}),
	}
	gauge := func(name, help string, fn func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + name, Help: help}, fn)
	}
	r.MustRegister(m.execs, m.linkChanges, m.duration, m.commit, m.logBytes, m.linkUp,
		gauge("jails", "Jails that run.", func() float64 { return float64(now.jails()) }),
		gauge("disk_free_bytes", "Room on the disk that holds the node's data.", func() float64 { return diskFree(now.dir) }),
		gauge("disk_reserve_held", "Whether the room is kept that lets a node with a full disk end what runs.", func() float64 {
			if now.reserved() {
				return 1
			}
			return 0
		}))
	r.MustRegister(newUsageCollector(prefix, now.usage))
	return m
}

// diskFree returns how many bytes may be written; 0 if that is not known.
func diskFree(dir string) float64 {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return 0
	}
	return float64(fs.Bavail) * float64(fs.Bsize)
}

// ended counts a command's end.
func (m *metrics) ended(e *nodev1.Exec) {
	m.execs.WithLabelValues(strings.ToLower(strings.TrimPrefix(e.GetEndReason().String(), "END_REASON_"))).Inc()
	m.logBytes.Add(float64(max(0, e.GetLogBytes())))
	if e.GetStartedAt() != nil && e.GetEndedAt() != nil {
		m.duration.Observe(max(0, e.GetEndedAt().AsTime().Sub(e.GetStartedAt().AsTime()).Seconds()))
	}
}

// committed notes how long a transaction of the ledger took.
func (m *metrics) committed(took time.Duration) { m.commit.Observe(took.Seconds()) }

// linked counts a session that began or ended.
func (m *metrics) linked(connected bool) {
	to, up := "down", 0.0
	if connected {
		to, up = "up", 1
	}
	m.linkUp.Set(up)
	m.linkChanges.WithLabelValues(to).Inc()
}
