// Package telemetry tells what the machine and its jails use: CPU time,
// memory, processes, disk and the pressure on them, every 15 s, and every
// second while somebody watches. What the last hour brought is kept in memory;
// a daemon that dies loses it, and the next begins anew.
//
// Some figures are events as well, which no reader may miss for being slow:
// processes killed for memory, a disk that is full, pressure. They are found
// between two samples, so that one that came and went in between is not seen,
// but for memory, of which the kernel keeps count.
//
// The figures are the kernel's own, from cgroups of version 1 or 2 and /proc.
// One that it does not give is left out and never made up.
package telemetry
