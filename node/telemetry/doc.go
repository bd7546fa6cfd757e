// Package telemetry measures the resources that the machine and its jails use:
// CPU time, memory, processes, disk, and pressure. It samples every 15 s, and
// every second while a client watches. The samples of the last hour are kept in
// memory; they are lost when the daemon dies, and the next daemon starts with
// none.
//
// Some conditions are also reported as events, which even a slow reader
// receives: processes killed for memory, a full disk, pressure. They are
// derived by comparing two samples, so a condition that begins and ends between
// samples is missed, except kills for memory, which the kernel counts.
//
// The values come from the kernel: cgroups of version 1 or 2, and /proc. A
// value that the kernel does not provide is omitted and never estimated.
package telemetry
