package jail

import (
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what processes use at a moment.
type Usage struct {
	// CPU is the processor time of the processes and of those that they have waited for.
	CPU time.Duration
	// Memory is their resident memory in bytes; what they share counts for each.
	Memory    int64
	Processes int
}

// UsageOf measures processes. Those that have ended meanwhile do not count.
func UsageOf(tree []Process) (u Usage) {
	for _, p := range tree {
		proc, err := procfs.NewProc(p.PID)
		if err != nil {
			continue
		}
		st, err := proc.Stat()
		if err != nil {
			continue
		}
		u.CPU += time.Duration(float64(st.UTime+st.STime)/userHZ*float64(time.Second)) + time.Duration(float64(st.CUTime+st.CSTime)/userHZ*float64(time.Second))
		u.Memory += int64(st.ResidentMemory())
		u.Processes++
	}
	return u
}

// userHZ is the unit of processor time in /proc, which is fixed for programs:
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
const userHZ = 100
