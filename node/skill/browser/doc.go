// Package browser drives a real Chromium inside a jail, as part of deckhand-skill.
//
// `deckhand-skill browser serve CONFIG` owns the browser of a task and lives as long as the
// task does. `deckhand-skill browser ask SOCKET` passes one call to it over a Unix socket and
// writes the result. Each call is therefore a command of its own in the node's ledger, under
// the step's id, while the browser survives the worker, the hub and the node's daemon.
//
// Serve and Chromium run as a user of their own in the jail, because Chromium runs without
// its sandbox there (the jail permits no nested namespaces): a page that takes over the
// browser cannot read the workspace. Ask runs as the agent's user. It reads files that are
// uploaded and writes files that were downloaded, and passes their bytes over the socket.
//
// The browser is driven over the Chrome DevTools Protocol on a pair of pipes, so there is no
// debugging port that a page or a command could connect to. The client of that protocol is
// our own (type conn): chromedp speaks WebSocket only, and it and go-rod bring the generated
// types of the whole protocol, of which fewer than fifty calls are needed here.
//
// Nothing waits without limit: each call has a timeout, dialogs are reported and not waited
// for, permissions are denied, and the lists of console messages, requests, tabs and
// downloads are bounded. If Chromium or a page ends, the pending call returns an error that
// says so, and the next one starts anew.
package browser
