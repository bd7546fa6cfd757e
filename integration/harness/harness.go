// Package harness runs Deckhand's real binaries as separate processes on real PostgreSQL,
// NATS and containerd, for the packages of tests below integration.
//
// Process is a running binary, Run one run of the command line, and Fleet a hub with the
// workers and nodes that a test starts beside it. Everything is stopped when the test
// ends, and the output of a process is logged if the test failed. Tests use CLI and JSON
// for what they verify about the command line; what they only wait for they read over the
// API, which costs a hundredth of a process.
//
// Nodes need root: as another user such tests are skipped.
package harness
