// Package harness runs Deckhand's real binaries as processes of their own on
// real PostgreSQL, NATS and containerd, for the packages of tests below
// integration.
//
// Process is a running binary, Run one run of the command line, and Fleet a hub
// with the workers and nodes that a test starts beside it. Everything is stopped
// when the test ends, and the output of a process is logged when it failed. What
// a test verifies about the command line it does by CLI and JSON; what it only
// waits for it reads over the API, which costs a hundredth of a process.
//
// Nodes need root: as another user such tests are skipped.
package harness
