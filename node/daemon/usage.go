package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// usageCollector exports the newest sample of what the machine and its jails use,
// which is at most 15 seconds old. Jails are summed up: their names are no labels.
// What the machine does not report is absent.
type usageCollector struct {
	latest                                                func() *nodev1.TelemetrySample
	cpu, cpus, memory, memorySize, pressure               *prometheus.Desc
	jailCPU, jailMemory, jailDisk, jailProcesses, oomKill *prometheus.Desc
}

func newUsageCollector(prefix string, latest func() *nodev1.TelemetrySample) *usageCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+name, help, labels, nil)
	}
	return &usageCollector{
		latest:        latest,
		cpu:           desc("host_cpu_seconds_total", "CPU time that the machine was busy."),
		cpus:          desc("host_cpus", "Processors of the machine."),
		memory:        desc("host_memory_used_bytes", "Memory of the machine that is in use and cannot be had."),
		memorySize:    desc("host_memory_bytes", "Memory of the machine."),
		pressure:      desc("host_pressure_ratio", "Share of the last minute in which some process waited for cpu, memory or io.", "resource"),
		jailCPU:       desc("jails_cpu_cores", "CPU time per second that all jails use."),
		jailMemory:    desc("jails_memory_bytes", "Memory that all jails use."),
		jailDisk:      desc("jails_workspace_bytes", "Space that all workspaces with a hard limit use."),
		jailProcesses: desc("jails_processes", "Processes in all jails."),
		oomKill:       desc("jails_out_of_memory_kills", "Processes that were killed for memory in the jails that run."),
	}
}

// Describe implements prometheus.Collector.
func (c *usageCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.cpu, c.cpus, c.memory, c.memorySize, c.pressure, c.jailCPU, c.jailMemory, c.jailDisk, c.jailProcesses, c.oomKill} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *usageCollector) Collect(out chan<- prometheus.Metric) {
	sample := c.latest()
	if sample == nil {
		return
	}
	set := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	host := sample.GetHost()
	if host.CpuTotalUsec != nil {
		set(c.cpu, prometheus.CounterValue, float64(host.GetCpuTotalUsec())/1e6)
	}
	if host.Cpus != nil {
		set(c.cpus, prometheus.GaugeValue, float64(host.GetCpus()))
	}
	if host.MemoryBytes != nil {
		set(c.memory, prometheus.GaugeValue, float64(host.GetMemoryBytes()))
		set(c.memorySize, prometheus.GaugeValue, float64(host.GetMemoryLimitBytes()))
	}
	for resource, p := range map[string]*nodev1.Pressure{"cpu": host.GetCpuPressure(), "memory": host.GetMemoryPressure(), "io": host.GetIoPressure()} {
		if p != nil {
			set(c.pressure, prometheus.GaugeValue, p.GetSomeAvg60()/100, resource)
		}
	}
	var millis, memory, disk, processes, kills int64
	for _, jail := range sample.GetJails() {
		millis += jail.GetCpuMillis()
		memory += jail.GetMemoryBytes()
		disk += jail.GetDiskBytes()
		processes += jail.GetPids()
		kills += jail.GetOomKills()
	}
	set(c.jailCPU, prometheus.GaugeValue, float64(millis)/1000)
	set(c.jailMemory, prometheus.GaugeValue, float64(memory))
	set(c.jailDisk, prometheus.GaugeValue, float64(disk))
	set(c.jailProcesses, prometheus.GaugeValue, float64(processes))
	set(c.oomKill, prometheus.GaugeValue, float64(kills))
}
